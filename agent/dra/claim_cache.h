// ClaimCache: which claims are prepared on ONE node, for whom, with which devices; and the file that a kubelet keeps of
// it (dra_manager_state), so that drivers are told to give claims back also after a restart.
//
// Thread rule: the node's thread; plain values. Source of the file's format: a kubelet 1.36, {"Data": text,
// "Checksum": CRC-32 of the text}, the text being {"kind","apiVersion","ClaimInfoStateList":[{"ClaimUID","ClaimName",
// "Namespace","PodUIDs":{uid:{}},"DriverState":{driver:{"Devices":[{"PoolName","DeviceName","ShareID","RequestNames",
// "CDIDeviceIDs"}]}}}]}.
#pragma once

#include <functional>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "base/status.h"

namespace ghostfleet::agent {

struct PreparedDevice {
  std::string driver, pool, device;
  std::vector<std::string> requests;  // of the claim, subrequests by their request; empty: of all
  std::vector<std::string> cdi;       // as the driver named it to the runtime; empty: the node's own driver has it
  std::string share = {};             // of a device that claims share by its capacity
  friend bool operator==(const PreparedDevice&, const PreparedDevice&) = default;
};

class ClaimCache {
 public:
  struct Entry {
    std::string uid;                // of the claim; empty: taken over, not known
    std::vector<std::string> pods;  // uids
    std::vector<std::string> drivers;
    std::vector<PreparedDevice> devices;
    bool prepared = false;
    friend bool operator==(const Entry&, const Entry&) = default;
  };
  using Each = std::function<void(std::string_view ns, std::string_view claim, const Entry& entry)>;

  Entry* find(std::string_view ns, std::string_view claim);
  const Entry* find(std::string_view ns, std::string_view claim) const;
  Entry& add(std::string_view ns, std::string_view claim);
  void erase(std::string_view ns, std::string_view claim);
  size_t size() const { return entries_.size(); }
  void for_each(const Each& each) const;

 private:
  std::map<std::string, Entry, std::less<>> entries_;  // "namespace/name"
};

inline constexpr size_t kMaxClaimCheckpoint = 16 << 20;
std::string render_claim_checkpoint(const ClaimCache& cache);
// What is read counts as not prepared: a driver is asked again before another sandbox is made, as by a kubelet.
// InvalidArgument names the field that is wrong.
Result<ClaimCache> parse_claim_checkpoint(std::string_view text);

}  // namespace ghostfleet::agent
