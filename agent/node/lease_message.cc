#include "agent/node/lease_message.h"

#include <charconv>

#include "kube/api/protobuf_wire.h"

namespace ghostfleet::agent {
namespace {

using kube::append_bytes_field;
using kube::append_message_field;
using kube::append_varint_field;
using kube::WireType;

constexpr std::string_view kMagic("k8s\0", 4);
// The field numbers that are used here.
enum Unknown : uint32_t { kTypeMeta = 1, kRaw = 2, kContentEncoding = 3, kContentType = 4 };
enum TypeMeta : uint32_t { kApiVersion = 1, kKind = 2 };
enum Lease : uint32_t { kMetadata = 1, kSpec = 2 };
enum ObjectMeta : uint32_t { kName = 1, kNamespace = 3, kResourceVersion = 6, kOwnerReferences = 13 };
enum OwnerReference : uint32_t { kOwnerKind = 1, kOwnerName = 3, kOwnerUid = 4, kOwnerApiVersion = 5 };
enum LeaseSpec : uint32_t { kHolderIdentity = 1, kDurationSeconds = 2, kRenewTime = 4 };
enum Timestamp : uint32_t { kSeconds = 1, kNanos = 2 };

void append_owner(std::string_view node, const NodeUid& uid, std::string* out) {
  append_bytes_field(kOwnerKind, "Node", out);
  append_bytes_field(kOwnerName, node, out);
  std::string text;
  uid.append_to(&text);
  append_bytes_field(kOwnerUid, text, out);
  append_bytes_field(kOwnerApiVersion, "v1", out);
}

void append_metadata(std::string_view node, const NodeUid& uid, uint64_t version, std::string* out) {
  append_bytes_field(kName, node, out);
  append_bytes_field(kNamespace, "kube-node-lease", out);
  if (version != 0) append_bytes_field(kResourceVersion, std::to_string(version), out);
  append_message_field(kOwnerReferences, out, [&] { append_owner(node, uid, out); });
}

void append_spec(std::string_view node, int64_t duration_seconds, WallTime renewed, std::string* out) {
  append_bytes_field(kHolderIdentity, node, out);
  append_varint_field(kDurationSeconds, static_cast<uint64_t>(duration_seconds), out);
  append_message_field(kRenewTime, out, [&] {
    constexpr int64_t kSecond = 1'000'000'000;
    append_varint_field(kSeconds, static_cast<uint64_t>(renewed.ns / kSecond), out);
    // A MicroTime has microseconds and no more.
    append_varint_field(kNanos, static_cast<uint64_t>(renewed.ns % kSecond / 1000 * 1000), out);
  });
}

// The bytes of the first field of that number; empty when there is none.
std::string_view field_of(std::string_view message, uint32_t wanted) {
  kube::WireReader wire(message);
  while (!wire.at_end()) {
    uint32_t number = 0;
    WireType type{};
    std::string_view bytes;
    if (!wire.read_tag(&number, &type)) return {};
    if (number == wanted && type == WireType::kBytes) return wire.read_bytes(&bytes) ? bytes : std::string_view();
    if (!wire.skip(type)) return {};
  }
  return {};
}

}  // namespace

std::string lease_message(std::string_view node, const NodeUid& uid, uint64_t version, int64_t duration_seconds,
                          WallTime renewed) {
  std::string out;
  out.reserve(224 + 3 * node.size());
  out += kMagic;
  append_message_field(kTypeMeta, &out, [&] {
    append_bytes_field(kApiVersion, "coordination.k8s.io/v1", &out);
    append_bytes_field(kKind, "Lease", &out);
  });
  append_message_field(kRaw, &out, [&] {
    append_message_field(kMetadata, &out, [&] { append_metadata(node, uid, version, &out); });
    append_message_field(kSpec, &out, [&] { append_spec(node, duration_seconds, renewed, &out); });
  });
  append_bytes_field(kContentEncoding, "", &out);
  append_bytes_field(kContentType, "", &out);
  return out;
}

uint64_t version_of_message(std::string_view envelope) {
  if (!envelope.starts_with(kMagic)) return 0;
  const std::string_view object = field_of(envelope.substr(kMagic.size()), kRaw);
  const std::string_view text = field_of(field_of(object, kMetadata), kResourceVersion);
  uint64_t version = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), version);
  return error == std::errc() && end == text.data() + text.size() ? version : 0;
}

}  // namespace ghostfleet::agent
