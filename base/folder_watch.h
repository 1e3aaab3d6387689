// FolderWatch: tells when something appears in a folder, or changes, or goes (inotify).
//
// Thread rule: one EventLoop; everything on its thread. Ownership: the watch owns its descriptor; what the callback
// captures outlives the watch. The callback comes from the loop, never from inside a method; it may destroy the watch.
// Errors: the folder cannot be watched: the message names it. A folder that goes away is told like an entry with an
// empty name; no more comes then.
#pragma once

#include <functional>
#include <memory>
#include <string>

#include "base/event_loop.h"
#include "base/status.h"

namespace ghostfleet {

class FolderWatch {
 public:
  // What has happened to the entry of that name in the folder. An empty name: look at everything (events were lost, or
  // the folder is gone).
  enum class Change { kAppeared, kWritten, kGone };
  using OnChange = std::function<void(const std::string& name, Change change)>;

  static Result<std::unique_ptr<FolderWatch>> open(EventLoop& loop, const std::string& folder, OnChange on_change);
  virtual ~FolderWatch() = default;
};

}  // namespace ghostfleet
