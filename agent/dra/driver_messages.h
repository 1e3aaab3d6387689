// Messages of the DRA plugin API (v1 and v1beta1, which differ in nothing that is read here but the share id) and of
// its health service (v1alpha1), to protobuf and back: what a kubelet and a DRA driver say to each other.
//
// Field numbers are those of Kubernetes' k8s.io/kubelet 0.36. Thread rule: plain values. Errors and limits:
// kube/api/protobuf_fields.h; a message is as long as its transport lets it be (gRPC: 4 MiB).
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "agent/dra/devices.h"
#include "base/status.h"

namespace ghostfleet::agent {

// A claim as a driver is told of it.
struct ClaimName {
  std::string ns, uid, name;
  friend bool operator==(const ClaimName&, const ClaimName&) = default;
};
// NodePrepareResources and NodeUnprepareResources.
std::string encode_claim_names(const std::vector<ClaimName>& claims);
Result<std::vector<ClaimName>> decode_claim_names(std::string_view bytes);

// A device that a driver has prepared for a claim.
struct DriverDevice {
  std::vector<std::string> requests;  // of the claim; empty: of all
  std::string pool, device;
  std::vector<std::string> cdi;  // what the runtime is told
  std::string share;             // empty: it is not shared by its capacity
  friend bool operator==(const DriverDevice&, const DriverDevice&) = default;
};
// What a driver says of one claim. NodeUnprepareResources tells no devices.
struct ClaimAnswer {
  std::string error;  // empty: it is done
  std::vector<DriverDevice> devices;
  friend bool operator==(const ClaimAnswer&, const ClaimAnswer&) = default;
};
using ClaimAnswers = std::map<std::string, ClaimAnswer, std::less<>>;  // by the claim's uid
std::string encode_prepare_answers(const ClaimAnswers& answers);
Result<ClaimAnswers> decode_prepare_answers(std::string_view bytes);
std::string encode_unprepare_answers(const ClaimAnswers& answers);
Result<ClaimAnswers> decode_unprepare_answers(std::string_view bytes);

// NodeWatchResources: each message has devices whose health is known anew.
struct HealthReport {
  std::string pool, device;
  DeviceHealth health = DeviceHealth::kUnknown;
  int64_t timeout_seconds = 0;  // how long that counts; 0 or less: the default
  std::string message;
  friend bool operator==(const HealthReport&, const HealthReport&) = default;
};
std::string encode_health(const std::vector<HealthReport>& devices);
Result<std::vector<HealthReport>> decode_health(std::string_view bytes);

}  // namespace ghostfleet::agent
