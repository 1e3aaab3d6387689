// EventRecorder: writes v1 Events about objects, as components of a control plane do: repeated ones are counted up, a
// flood about one object is cut (25 at once, then one in five minutes), and writing never delays real work: events wait
// in a bounded queue that is emptied a few at a time.
//
// Thread rule: the loop's thread only.
#pragma once

#include <deque>
#include <memory>
#include <string>

#include "base/event_loop.h"
#include "base/random.h"
#include "controlplane/apiserver/api.h"
#include "controlplane/informer/kind_watch.h"

namespace ghostfleet::controlplane {

struct ObjectReference {
  std::string api_version, kind, ns, name, uid, resource_version;
};
// From a decoded object.
ObjectReference reference_to(const kube::Json& object);

class EventRecorder {
 public:
  EventRecorder(Api& api, EventLoop& loop, std::string component);
  ~EventRecorder();
  EventRecorder(const EventRecorder&) = delete;
  EventRecorder& operator=(const EventRecorder&) = delete;

  // `type` is Normal or Warning.
  void record(const ObjectReference& about, std::string_view type, std::string_view reason, std::string message,
              std::string_view component = "");
  // In the form of events.k8s.io (eventTime, action, reporting controller), as the scheduler writes them.
  void record_action(const ObjectReference& about, std::string_view type, std::string_view reason,
                     std::string_view action, std::string message);
  size_t dropped() const { return dropped_; }
  size_t waiting() const { return queue_.size(); }
  void flush();  // all that wait, now

 private:
  struct Pending {
    ObjectReference about;
    std::string type, reason, message, component, action;
    WallTime when;
  };
  struct Bucket {
    double tokens = 0;
    TimePoint last;
  };
  struct Known {
    std::string name;
    int64_t count = 1;
  };

  bool allowed(const std::string& source_and_object);
  void enqueue(Pending pending);
  void schedule();
  void run_slice();
  void write(const Pending& pending);
  bool count_up(const Pending& pending, Known* known);
  kube::Json render(const Pending& pending, const std::string& name) const;

  Api& api_;
  EventLoop& loop_;
  std::string component_;
  const Resource* resource_;
  RequestContext context_;
  Rng rng_;
  std::deque<Pending> queue_;
  StringMap<Bucket> buckets_;
  StringMap<Known> known_;
  size_t dropped_ = 0;
  bool posted_ = false;
  std::shared_ptr<bool> alive_ = std::make_shared<bool>(true);
};

}  // namespace ghostfleet::controlplane
