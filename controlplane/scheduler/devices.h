// DeviceBook: which devices the ResourceSlices offer, who has them, and what a pod's claims could get on a node. Pure:
// told of slices, classes and claims as JSON, asked for allocations.
//
// A pool counts with the slices of its newest generation, and only when all of them are there. What a selector says of
// a device is remembered as long as its slice stays.
// Thread rule: one owner. Limits: kMostSteps of a search, kMostDevices of a claim. Errors: Outcome::error ends the try
// for the pod on every node; Outcome::fits is about one node.
// Source: resource.k8s.io/v1; kube-scheduler 1.36 (structured parameters).
// Deviations: no partitionable devices (shared counters), consumable capacity, binding conditions or claims of
// extended resources; slices with a nodeSelector are left out.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "base/status.h"
#include "kube/api/json.h"
#include "kube/cel/program.h"

namespace ghostfleet::controlplane::scheduling {

struct DeviceTaint {
  std::string key, value, effect;
};

// A selector's expression, read; `id` tells it from all others there ever were.
struct Selector {
  uint64_t id = 0;
  std::shared_ptr<const kube::cel::Program> program;
};

struct DeviceOffer {
  std::string driver, pool, name;
  kube::cel::Value object;  // "device" of selectors
  std::vector<DeviceTaint> taints;
  mutable std::unordered_map<uint64_t, bool> verdicts;  // by Selector::id

  std::string id() const { return driver + "/" + pool + "/" + name; }
};

class DeviceBook {
 public:
  static constexpr int kMostSteps = 20000;
  static constexpr size_t kMostDevices = 32;  // of one claim, as the API has it

  void set_slice(const std::string& name, const kube::Json& slice);
  void remove_slice(std::string_view name);
  void set_class(const std::string& name, const kube::Json& device_class);
  void remove_class(std::string_view name);
  void set_claim(const std::string& key, const kube::Json& claim);  // NAMESPACE/NAME
  void remove_claim(std::string_view key);

  struct Outcome {
    bool fits = false;
    std::string error;
    std::vector<kube::Json> allocations;  // status.allocation of each claim
  };
  // What these claims, none of which is allocated, could get together on the node. Nothing changes.
  Outcome allocate(const std::vector<const kube::Json*>& claims, std::string_view node) const;
  // Whether an allocated claim can be used on the node.
  static bool usable_on(const kube::Json& claim, std::string_view node);

 private:
  friend class Allocation;  // allocation.cc
  struct Slice {
    std::string pool;  // DRIVER/POOL
    std::string node;  // empty: of all nodes
    int64_t generation = 0, count = 0;
    std::vector<std::unique_ptr<DeviceOffer>> devices;
  };
  struct DeviceClass {
    std::vector<Selector> selectors;
    std::string broken;  // what is wrong with its selectors
    kube::Json config;   // a list
  };
  Result<Selector> selector(const std::string& expression) const;
  void forget_selectors() const;
  std::vector<const DeviceOffer*> devices_on(std::string_view node) const;
  void add_pools(std::string_view node, std::vector<const DeviceOffer*>* out) const;

  std::map<std::string, std::shared_ptr<const Slice>, std::less<>> slices_;
  std::map<std::string, std::set<std::string>, std::less<>> by_node_;  // names of slices; "": of all nodes
  std::map<std::string, std::set<std::string>, std::less<>> by_pool_;
  std::map<std::string, DeviceClass, std::less<>> classes_;
  std::map<std::string, std::vector<std::string>, std::less<>> allocated_;  // devices of each claim
  std::unordered_map<std::string, int> in_use_;                             // by device, not counting administrators
  mutable std::unordered_map<std::string, Selector> selectors_;             // by expression
  mutable uint64_t next_selector_ = 1;
};

}  // namespace ghostfleet::controlplane::scheduling
