#include "agent/dra/driver_messages.h"

#include <tuple>
#include <utility>

#include "kube/api/protobuf_fields.h"

namespace ghostfleet::agent {
namespace {

using Fields = kube::MessageFields;

Result<ClaimName> decode_claim_name(std::string_view bytes) {
  Fields f(bytes);
  ClaimName out;
  while (f.next()) {
    f.text(1, &out.ns);
    f.text(2, &out.uid);
    f.text(3, &out.name);
  }
  return f.result(std::move(out));
}

void append_device(const DriverDevice& device, std::string* out) {
  kube::append_texts(1, device.requests, out);
  kube::append_text(2, device.pool, out);
  kube::append_text(3, device.device, out);
  kube::append_texts(4, device.cdi, out);
  kube::append_text(5, device.share, out);
}

Result<DriverDevice> decode_device(std::string_view bytes) {
  Fields f(bytes);
  DriverDevice out;
  while (f.next()) {
    f.texts(1, &out.requests);
    f.text(2, &out.pool);
    f.text(3, &out.device);
    f.texts(4, &out.cdi);
    f.text(5, &out.share);
  }
  return f.result(std::move(out));
}

Result<ClaimAnswer> decode_prepared(std::string_view bytes) {
  Fields f(bytes);
  ClaimAnswer out;
  while (f.next()) {
    f.message(1, decode_device, [&](DriverDevice device) { out.devices.push_back(std::move(device)); });
    f.text(2, &out.error);
  }
  return f.result(std::move(out));
}

Result<ClaimAnswer> decode_unprepared(std::string_view bytes) {
  Fields f(bytes);
  ClaimAnswer out;
  while (f.next()) f.text(1, &out.error);
  return f.result(std::move(out));
}

// A map's entry is a message of key and value.
template <class Decode>
Result<ClaimAnswers> decode_answers(std::string_view bytes, const Decode& decode) {
  const auto decode_entry = [&decode](std::string_view entry) -> Result<std::pair<std::string, ClaimAnswer>> {
    Fields f(entry);
    std::pair<std::string, ClaimAnswer> out;
    while (f.next()) {
      f.text(1, &out.first);
      f.message(2, decode, [&](ClaimAnswer answer) { out.second = std::move(answer); });
    }
    return f.result(std::move(out));
  };
  Fields f(bytes);
  ClaimAnswers out;
  while (f.next()) {
    f.message(1, decode_entry, [&](std::pair<std::string, ClaimAnswer> entry) {
      out.insert_or_assign(std::move(entry.first), std::move(entry.second));
    });
  }
  return f.result(std::move(out));
}

DeviceHealth health_of(int64_t number) {
  if (number == 1) return DeviceHealth::kHealthy;
  return number == 2 ? DeviceHealth::kUnhealthy : DeviceHealth::kUnknown;
}

Result<HealthReport> decode_report(std::string_view bytes) {
  Fields f(bytes);
  HealthReport out;
  int64_t health = 0;
  while (f.next()) {
    f.message(1, kube::decode_text_pair,
              [&](std::pair<std::string, std::string> names) { std::tie(out.pool, out.device) = std::move(names); });
    f.number(2, &health);
    f.number(4, &out.timeout_seconds);
    f.text(5, &out.message);
  }
  out.health = health_of(health);
  return f.result(std::move(out));
}

}  // namespace

std::string encode_claim_names(const std::vector<ClaimName>& claims) {
  std::string out;
  for (const ClaimName& claim : claims) {
    kube::append_message_field(1, &out, [&] {
      kube::append_text(1, claim.ns, &out);
      kube::append_text(2, claim.uid, &out);
      kube::append_text(3, claim.name, &out);
    });
  }
  return out;
}

Result<std::vector<ClaimName>> decode_claim_names(std::string_view bytes) {
  return kube::decode_list<ClaimName>(bytes, decode_claim_name);
}

std::string encode_prepare_answers(const ClaimAnswers& answers) {
  std::string out;
  for (const auto& [uid, answer] : answers) {
    kube::append_message_field(1, &out, [&, &uid = uid, &answer = answer] {
      kube::append_text(1, uid, &out);
      kube::append_message_field(2, &out, [&] {
        for (const DriverDevice& device : answer.devices)
          kube::append_message_field(1, &out, [&] { append_device(device, &out); });
        kube::append_text(2, answer.error, &out);
      });
    });
  }
  return out;
}

Result<ClaimAnswers> decode_prepare_answers(std::string_view bytes) { return decode_answers(bytes, decode_prepared); }

std::string encode_unprepare_answers(const ClaimAnswers& answers) {
  std::string out;
  for (const auto& [uid, answer] : answers) {
    kube::append_message_field(1, &out, [&, &uid = uid, &answer = answer] {
      kube::append_text(1, uid, &out);
      kube::append_message_field(2, &out, [&] { kube::append_text(1, answer.error, &out); });
    });
  }
  return out;
}

Result<ClaimAnswers> decode_unprepare_answers(std::string_view bytes) {
  return decode_answers(bytes, decode_unprepared);
}

std::string encode_health(const std::vector<HealthReport>& devices) {
  std::string out;
  for (const HealthReport& device : devices) {
    kube::append_message_field(1, &out, [&] {
      kube::append_message_field(1, &out, [&] {
        kube::append_text(1, device.pool, &out);
        kube::append_text(2, device.device, &out);
      });
      const uint64_t health = device.health == DeviceHealth::kHealthy     ? 1
                              : device.health == DeviceHealth::kUnhealthy ? 2
                                                                          : 0;
      if (health != 0) kube::append_varint_field(2, health, &out);
      if (device.timeout_seconds != 0)
        kube::append_varint_field(4, static_cast<uint64_t>(device.timeout_seconds), &out);
      kube::append_text(5, device.message, &out);
    });
  }
  return out;
}

Result<std::vector<HealthReport>> decode_health(std::string_view bytes) {
  return kube::decode_list<HealthReport>(bytes, decode_report);
}

}  // namespace ghostfleet::agent
