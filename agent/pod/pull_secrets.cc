#include "agent/pod/pull_secrets.h"

#include "base/digest.h"

namespace ghostfleet::agent {

std::string docker_config_of(const kube::Json& secret) {
  const std::string_view type = kube::get_string(secret, "type");
  const bool old = type == "kubernetes.io/dockercfg";
  if (!old && type != "kubernetes.io/dockerconfigjson") return {};
  const kube::Json* data = kube::find_key(secret, "data");
  const kube::Json* value = data != nullptr ? kube::find_key(*data, old ? ".dockercfg" : ".dockerconfigjson") : nullptr;
  std::string text;
  if (value == nullptr || !value->is_string() || !base64_decode(std::string_view(value->get_string()), &text))
    return {};
  auto config = kube::parse_json(text);
  if (!config.ok() || !config->is_object()) return {};
  // The old form is what stands below "auths" in the new one.
  return old ? kube::to_json(kube::JsonObject{{"auths", std::move(*config)}}) : text;
}

PullSecret pull_secret_of(std::string_view ns, std::string_view name, bool found, std::string_view object) {
  PullSecret out{std::string(ns), std::string(name), {}, {}};
  const auto secret = kube::parse_json(found ? object : std::string_view("{}"));
  if (!secret.ok()) return out;
  out.uid = kube::get_string(*secret, "metadata.uid");
  out.config = docker_config_of(*secret);
  return out;
}

}  // namespace ghostfleet::agent
