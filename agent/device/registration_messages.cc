#include "agent/device/registration_messages.h"

#include "kube/api/protobuf_fields.h"

namespace ghostfleet::agent {

using Fields = kube::MessageFields;

std::string encode_plugin_info(const PluginInfo& info) {
  std::string out;
  kube::append_text(1, info.type, &out);
  kube::append_text(2, info.name, &out);
  kube::append_text(3, info.endpoint, &out);
  kube::append_texts(4, info.versions, &out);
  return out;
}

Result<PluginInfo> decode_plugin_info(std::string_view bytes) {
  Fields f(bytes);
  PluginInfo out;
  while (f.next()) {
    f.text(1, &out.type);
    f.text(2, &out.name);
    f.text(3, &out.endpoint);
    f.texts(4, &out.versions);
  }
  return f.result(std::move(out));
}

std::string encode_registration_status(const RegistrationStatus& status) {
  std::string out;
  kube::append_flag(1, status.registered, &out);
  kube::append_text(2, status.error, &out);
  return out;
}

Result<RegistrationStatus> decode_registration_status(std::string_view bytes) {
  Fields f(bytes);
  RegistrationStatus out;
  while (f.next()) {
    f.flag(1, &out.registered);
    f.text(2, &out.error);
  }
  return f.result(std::move(out));
}

}  // namespace ghostfleet::agent
