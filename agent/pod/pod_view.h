// PodView: what a node tells of one of its pods to those who ask it directly (logs, exec, stats): a copy, so that it
// may travel to another thread.
//
// Thread rule: plain values; filled on the node's thread by PodManager::describe().
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "agent/behavior/behavior.h"
#include "agent/device/device_manager.h"
#include "agent/device/plugin_messages.h"
#include "agent/pod/pressure.h"
#include "agent/pod/probe_tally.h"
#include "base/clock.h"

namespace ghostfleet::agent {

enum class ContainerState : unsigned char { kWaiting, kRunning, kExited };

// One run of a container from its start to its end.
struct AttemptView {
  bool known = false;  // there was such an attempt
  bool ended = false;
  uint32_t attempt = 0;  // 0 is the first
  WallTime started, finished;
  int32_t exit_code = 0;
  std::string last_words = {};  // that its script does not tell; empty: those of the script
};

struct ContainerView {
  std::string name, image;
  bool init = false, sidecar = false;
  ContainerState state = ContainerState::kWaiting;
  std::string waiting_reason;  // "ContainerCreating", "ImagePullBackOff", "CrashLoopBackOff", ...
  AttemptView current;         // the newest attempt, running or ended
  AttemptView previous;        // the one before
  Script script;
  std::string resources;                  // {"limits":{...},"requests":{...}}, "{}" when none
  std::string id;                         // "containerd://..." of the newest attempt; empty: never created
  ProbeTallies probes;                    // of all attempts
  std::vector<ContainerDevices> devices;  // of device plugins, that it holds
  std::vector<DynamicResource> claims;    // that it uses and that are prepared, each with all its devices
  AllocateResponse given;                 // what their plugins say it needs for them
  ResourceUse use;                        // now, as the node's eviction counts it; nothing while it does not run
};

// An emptyDir volume as its node has measured it last.
struct VolumeView {
  std::string name;
  int64_t used = 0;  // bytes
};

struct PodView {
  std::string ns, name, uid, ip;
  bool host_network = false;
  bool terminating = false;
  WallTime start_time;  // zero: no status yet
  std::string phase;
  std::vector<ContainerView> containers;  // init containers first
  std::vector<VolumeView> volumes;        // emptyDir volumes

  const ContainerView* find(std::string_view container) const;
  // Of all that runs, and of the volumes: what the node's eviction counts.
  ResourceUse use() const;
};

// Which pods describe() is asked for; an empty name means all.
struct PodPick {
  std::string ns, name;
};

}  // namespace ghostfleet::agent
