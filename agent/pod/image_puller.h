// ImagePuller: how the images of one node come onto it, as its PodManager sees it. Implementations: the rules of
// PodOptions (images.h); and, given by the manager's owner (NodeFacts), a model of transfers that share what they come
// over, or pulls from registries.
//
// Thread rule: the node's thread. Images are named as a pod's spec names them.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/clock.h"

namespace ghostfleet::agent {

// Chosen by the manager; one for each pull that is on its way.
using PullTicket = uint64_t;

// Chosen by the manager; one for each read that is on its way.
using ReadTicket = uint64_t;

// What a container sees of a file that it reads.
enum class ReadEnd : unsigned char {
  kRead,
  kNoSuchFile,   // ENOENT
  kNotReadable,  // EISDIR, EINVAL: it is no regular file
  kInputOutput   // EIO: what is needed of the image is not on the node, and cannot be had
};

// When a pull ends that only its puller can tell the end of.
inline constexpr TimePoint kPullEndIsTold{INT64_MAX};

// What a pod's pull secret says.
struct PullSecret {
  std::string ns, name, uid;
  std::string config;  // a docker config file; empty: it is of no use
};

struct PullResult {
  std::string error;  // as the kubelet shows it; empty: the image is there
  Duration own{0};    // of the pull itself, without the time it waited for its turn
  int64_t size_bytes = 0;
};

// The disk that images and pods share.
struct DiskRoom {
  int64_t capacity = 0, available = 0;  // bytes; what pods use is taken off
  int64_t images = 0;                   // bytes that images take
};

class ImagePuller {
 public:
  virtual ~ImagePuller() = default;

  // Whether the image is on the node. Asked when a container is to be made from it: it counts as a use.
  virtual bool present(std::string_view image, TimePoint now) = 0;
  // The same for a container that must not pull it (imagePullPolicy Never): what is merely taken as there is not
  // enough.
  virtual bool present_unpulled(std::string_view image, TimePoint now) { return present(image, now); }
  // Begins a pull; gives the time it ends at, or kPullEndIsTold: then PodManager::on_image_pulled(ticket) is called,
  // never inside this call.
  virtual TimePoint begin(PullTicket ticket, std::string_view image, TimePoint now) = 0;
  // What came of it; once, at or after its end.
  virtual PullResult end(PullTicket ticket, std::string_view image, TimePoint now) = 0;
  // Images are really pulled: the manager hands over pull secrets, and asks for the ids of images. In full fidelity
  // only.
  virtual bool real() const { return false; }
  // Before begin() of that ticket: what the pod's pull secrets say, in their order (pull_secrets.h).
  virtual void give_secrets(PullTicket, std::vector<PullSecret>) {}
  // Whether a pod may use an image that is there: any pod, or one with these pull secrets. Of real() ones only.
  virtual bool open_to_all(std::string_view) { return true; }
  virtual bool open_to(std::string_view, const std::vector<PullSecret>&) { return true; }
  // The reference by digest, as container statuses tell it, of an image that is there; empty: one is made up.
  virtual std::string id_of(std::string_view) { return {}; }
  // Reads a file of an image that is there from its begin to its end, links followed inside the image; of real() ones
  // only. `image` as id_of() gave it, or by its name. PodManager::on_image_read(ticket)
  // tells the end, never inside this call.
  virtual void begin_read(ReadTicket, std::string_view /*image*/, std::string_view /*path*/,
                          std::vector<PullSecret> /*secrets*/) {}
  // A container of an earlier agent runs from this image: it is there.
  virtual void adopt(std::string_view image, TimePoint now) = 0;
  // As it is now; nothing: images take no room.
  virtual std::optional<DiskRoom> disk_room() { return std::nullopt; }
  // Takes away every image that no container is of and that is old enough, as a kubelet does before it evicts a pod for
  // the sake of the disk.
  virtual void remove_unused(TimePoint) {}
};

}  // namespace ghostfleet::agent
