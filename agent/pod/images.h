// The images of one node: which are there, how long a pull takes, and which cannot be pulled, by the rules of
// PodOptions.
//
// Pulls of one node come one after the other, as a kubelet's do by default.
// Thread rule: the node's thread. Memory: 8 bytes for each image that was used.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "agent/pod/image_puller.h"
#include "agent/pod/pod_manager.h"

namespace ghostfleet::agent {

// As containerd names it: "nginx" is "docker.io/library/nginx:latest".
std::string normal_image_name(std::string_view image);
// Whether a container runtime can make sense of the name.
bool valid_image_name(std::string_view image);
// The repository, when upper case is all that is wrong with the name.
std::string upper_repository(std::string_view image);
// The reference by digest; the digest is made up from the name.
std::string image_id(std::string_view image);
// 64 hexadecimal digits made up from a number.
std::string made_up_digest(uint64_t seed);

class NodeImages final : public ImagePuller {
 public:
  explicit NodeImages(const PodOptions& options) : options_(&options) {}

  bool present(std::string_view image, TimePoint now) override;
  bool present_unpulled(std::string_view image, TimePoint now) override;
  TimePoint begin(PullTicket ticket, std::string_view image, TimePoint now) override;
  PullResult end(PullTicket ticket, std::string_view image, TimePoint now) override;
  void adopt(std::string_view image, TimePoint now) override;

  // The runtime's words for a pull that fails by this rule.
  static std::string pull_error(std::string_view image, const ImageRule& rule);
  static int64_t size_of(std::string_view image);

 private:
  const ImageRule* rule_of(std::string_view image) const;
  bool was_used(std::string_view image) const;
  void note_use(std::string_view image);

  const PodOptions* options_;
  TimePoint free_at_;
  std::vector<uint64_t> used_;  // hashes of the images that were pulled or run here
};

}  // namespace ghostfleet::agent
