#include "agent/image/users.h"

#include <utility>

#include "base/log.h"

namespace ghostfleet::image {

std::vector<DockerConfig> users_for(const Reference& image, const std::vector<DockerConfig>& credentials,
                                    DockerConfig own) {
  std::vector<DockerConfig> out;
  for (const DockerConfig& config : credentials) {
    if (config.find(image.registry, image.api_host())) out.push_back(config);
  }
  if (out.empty() || own.find(image.registry, image.api_host())) out.push_back(std::move(own));
  return out;
}

DockerConfig UsersFile::read() {
  auto now = DockerConfig::load(path_);
  const std::lock_guard lock(mutex_);
  if (now.ok()) {
    last_ = std::move(*now);
  } else {
    log_warn("image", now.error().message() + "; what it held before counts");
  }
  return last_;
}

}  // namespace ghostfleet::image
