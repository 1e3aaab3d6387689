// DeviceBook: which devices the ResourceSlices offer, who has them, and what a pod's claims could get on a node. Pure:
// told of slices, classes and claims as JSON, asked for allocations.
//
// A pool counts with the slices of its newest generation, and only when all of them are there. Of a slice no more is
// kept than what finds it: its devices are read when its node is looked at, and those of kMostRead slices are
// remembered, with what selectors said of them.
// Thread rule: one owner. Limits: kMostSteps of a search, kMostDevices of a claim. Errors: Outcome::error ends the try
// for the pod on every node; Outcome::fits is about one node.
// Source: resource.k8s.io/v1; kube-scheduler 1.36 (structured parameters).
// Deviations: no partitionable devices (shared counters), consumable capacity, binding conditions; slices with a
// nodeSelector are left out.
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
#include "controlplane/scheduler/requirements.h"
#include "kube/api/json.h"
#include "kube/cel/program.h"

namespace ghostfleet::controlplane::scheduling {

// A selector's expression, read; `id` tells it from all others there ever were.
struct Selector {
  uint64_t id = 0;
  std::shared_ptr<const kube::cel::Program> program;
};

struct DeviceOffer {
  bool local = false;  // to one node
  std::string driver, pool, name;
  kube::cel::Value object;  // "device" of selectors
  std::vector<Taint> taints;
  mutable std::unordered_map<uint64_t, bool> verdicts;  // by Selector::id

  std::string id() const { return driver + "/" + pool + "/" + name; }
};

class DeviceBook {
 public:
  static constexpr int kMostSteps = 20000;
  static constexpr size_t kMostDevices = 32;  // of one claim, as the API has it

  // `slice`: compact JSON.
  void set_slice(const std::string& name, std::shared_ptr<const std::string> slice);
  void remove_slice(std::string_view name);
  void set_class(const std::string& name, const kube::Json& device_class);
  void remove_class(std::string_view name);
  // The class whose devices stand for an extended resource; empty: none. Of several the first by name.
  std::string class_for(std::string_view resource) const;
  void set_claim(const std::string& key, const kube::Json& claim);  // NAMESPACE/NAME
  void remove_claim(std::string_view key);

  static constexpr size_t kMostRead = 4096;

  struct Outcome {
    bool fits = false;
    std::string error;
    std::vector<kube::Json> allocations;  // status.allocation of each claim
  };
  // Whether an allocated claim can be used on the node.
  static bool usable_on(const kube::Json& claim, std::string_view node);

 private:
  friend class DeviceSearch;
  using Devices = std::vector<DeviceOffer>;
  struct Slice {
    std::string pool;  // DRIVER/POOL
    std::string node;  // empty: of all nodes
    int64_t generation = 0, count = 0;
    size_t size = 0;  // devices
    std::shared_ptr<const std::string> json;
    std::shared_ptr<const Devices> devices;  // when they were read
  };
  struct DeviceClass {
    std::vector<Selector> selectors;
    std::string broken;    // what is wrong with its selectors
    kube::Json config;     // a list
    std::string resource;  // extendedResourceName
  };
  Result<Selector> selector(const std::string& expression) const;
  void forget_devices() const;
  // Those of whole pools.
  std::vector<std::shared_ptr<const Devices>> devices_on(std::string_view node) const;
  void add_pools(std::string_view node, std::vector<std::shared_ptr<const Devices>>* out) const;
  std::shared_ptr<const Devices> read(Slice& slice) const;
  // Never less than what is free on the node.
  int64_t free_on(std::string_view node) const;
  int64_t free_in(std::string_view node) const;

  mutable std::map<std::string, Slice, std::less<>> slices_;
  mutable size_t read_ = 0;                                            // slices whose devices are remembered
  std::map<std::string, std::set<std::string>, std::less<>> by_node_;  // names of slices; "": of all nodes
  std::map<std::string, std::set<std::string>, std::less<>> by_pool_;
  std::map<std::string, DeviceClass, std::less<>> classes_;
  std::map<std::string, std::vector<std::string>, std::less<>> allocated_;  // devices of each claim
  std::unordered_map<std::string, int> in_use_;                             // by device, not counting administrators
  std::unordered_map<std::string, int> in_use_of_pool_;
  mutable std::unordered_map<std::string, Selector> selectors_;  // by expression
  mutable uint64_t next_selector_ = 1;
};

// The search for the devices of a pod's claims, none of which is allocated, on one node after the other. Nothing in
// the book changes, and nobody changes it meanwhile; book and claims outlive the search.
class DeviceSearch {
 public:
  DeviceSearch(const DeviceBook& book, const std::vector<const kube::Json*>& claims);
  ~DeviceSearch();
  DeviceSearch(const DeviceSearch&) = delete;
  DeviceSearch& operator=(const DeviceSearch&) = delete;

  DeviceBook::Outcome on(std::string_view node);

 private:
  struct Way;
  struct Request;
  struct Pick;

  std::string read_claim(size_t claim);
  std::string add_way(const kube::Json& json, const std::string& name, Request* request);
  std::string name_of(size_t claim) const;
  int64_t least_wanted() const;

  bool holds(const Selector& selector, const DeviceOffer& device, const std::string& request);
  bool is_wanted(const Way& way, const DeviceOffer& device);
  bool is_free(const Way& way, const DeviceOffer& device) const;
  bool constraints_hold(size_t claim) const;
  bool constraint_holds(size_t claim, const kube::Json& constraint) const;
  static bool concerns(const kube::Json& constraint, const Pick& pick, const Request& request);

  bool next_request(size_t request);
  bool take_all(size_t request, const Way& way);
  bool take_some(size_t request, const Way& way, size_t taken, size_t from);
  bool too_long();

  kube::Json allocation_of(size_t claim, std::string_view node) const;
  static kube::Json result_of(const Pick& pick);
  void add_configs(size_t claim, kube::JsonArray* out) const;

  const DeviceBook& book_;
  const std::vector<const kube::Json*>& claims_;
  std::vector<Request> requests_;
  std::string broken_;  // what is wrong with the claims wherever they go
  // Of the present node.
  std::vector<const DeviceOffer*> devices_;
  std::vector<Pick> picks_;
  std::string error_;
  int steps_ = 0;
};

}  // namespace ghostfleet::controlplane::scheduling
