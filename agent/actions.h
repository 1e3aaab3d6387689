// What a node's state machines ask of the outside, and what comes back. agent/ holds no socket, thread or clock: the
// same machines run as one node in the foreground, as a hundred thousand rows of a fleet, and in a test without a
// network.
//
// Thread rule: a machine and its Host belong to one thread.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "base/clock.h"
#include "base/random.h"

namespace ghostfleet::agent {

enum class Verb : unsigned char { kGet, kPost, kPut, kPatch, kDelete };
// Whoever sends kProtobuf reads protobuf: its answer is handed on as it came. All others get JSON.
enum class BodyType : unsigned char { kNone, kJson, kStrategicMergePatch, kMergePatch, kProtobuf };

// In which order waiting requests are sent; the same order as kube::http::Lane, which agent/ does not know.
enum class Priority : unsigned char { kHeartbeat = 0, kStatus = 1, kNormal = 2, kBulk = 3 };

// Chosen by the machine that sends; handed back with the answer or when a timer fires.
using Tag = uint64_t;

struct ApiRequest {
  Verb verb = Verb::kGet;
  BodyType body_type = BodyType::kNone;
  Priority priority = Priority::kNormal;
  Tag tag = 0;
  std::string target;  // path and query
  std::string body;
  Duration timeout = std::chrono::seconds(60);
};

struct ApiResponse {
  int status = 0;           // HTTP; 0: no answer (connection lost, deadline)
  std::string_view body;    // valid during the call; empty unless asked for or an error
  Duration retry_after{0};  // from a Retry-After header
  bool ok() const { return status >= 200 && status < 300; }
};

// Why an event was not written: the filter of its object, too many waiting, the budget of the fleet, the server said
// no, no answer again and again, its pod was gone before its turn came.
enum class EventDrop : unsigned char { kFilter, kQueueFull, kFleetBudget, kRefused, kNoAnswer, kPodGone };
inline constexpr int kEventDrops = 6;

// Given to the machines of ONE node.
class Host {
 public:
  virtual ~Host() = default;
  virtual TimePoint now() const = 0;
  virtual WallTime wall_now() const = 0;
  virtual Rng& rng() = 0;
  // Sends; the answer comes later through the machine's on_response(tag, ...), never inside this call.
  virtual void send(ApiRequest request) = 0;
  // Arms the timer of that tag (replacing it when armed); it comes back through on_timer(tag).
  virtual void arm(Tag tag, TimePoint at) = 0;
  virtual void disarm(Tag tag) = 0;
  // Asked before each event: whether the fleet may write another one now.
  virtual bool may_write_event() { return true; }
  virtual void event_dropped(EventDrop) {}
};

}  // namespace ghostfleet::agent
