#include "agent/image/users.h"

#include <utility>

#include "base/log.h"

namespace ghostfleet::image {

std::vector<RegistryUser> users_for(const Reference& image, const std::vector<DockerConfig>& credentials,
                                    DockerConfig own) {
  std::vector<RegistryUser> out;
  for (size_t i = 0; i < credentials.size(); ++i) {
    if (credentials[i].find(image.registry, image.api_host())) out.push_back({credentials[i], static_cast<int>(i)});
  }
  if (out.empty() || own.find(image.registry, image.api_host())) out.push_back({std::move(own), -1});
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
