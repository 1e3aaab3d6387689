// Which users of a registry are tried for an image, and where they come from.
//
// Thread rule: UsersFile any thread; else pure functions. Secrets never go into a message.
#pragma once

#include <functional>
#include <mutex>
#include <string>
#include <vector>

#include "agent/image/auth.h"
#include "agent/image/reference.h"

namespace ghostfleet::image {

// Who we are to registries when nobody tells; asked anew each time.
using UserSource = std::function<DockerConfig()>;

struct RegistryUser {
  DockerConfig config;
  int given = -1;  // its place in the credentials that were given; -1: it is our own
};
// Those of `credentials` that have a user for the image's registry, in their order, then `own`; `own` alone, which may
// have none, when nobody has one.
std::vector<RegistryUser> users_for(const Reference& image, const std::vector<DockerConfig>& credentials,
                                    DockerConfig own);

// A docker config file that others may write anew: read each time it is asked for. What cannot be read changes nothing
// (and is logged).
class UsersFile {
 public:
  // `path` as of DockerConfig::load(); `now` is what it holds.
  UsersFile(std::string path, DockerConfig now) : path_(std::move(path)), last_(std::move(now)) {}
  DockerConfig read();

 private:
  const std::string path_;
  std::mutex mutex_;  // guards what follows
  DockerConfig last_;
};

}  // namespace ghostfleet::image
