// Containers in a pod's status.
#include <fmt/format.h>

#include "agent/behavior/command_log.h"
#include "agent/pod/images.h"
#include "agent/pod/status_parts.h"

namespace ghostfleet::agent {

namespace {

void add_ended(const Pod& pod, size_t index, const Ended& end, const StatusContext& context, std::string* out) {
  *out += "{\"terminated\":{";
  const bool seen = end.located && !end.reset;
  if (seen) {
    add_text("containerID", container_id(pod, index, end.attempt, context.options.runtime_name), out);
    *out += ",";
  }
  *out += fmt::format("\"exitCode\":{},\"finishedAt\":{},", end.code, time_or_null(end.finished));
  if (!seen) {
    add_text("message", end.reset ? kResetMessage : kLostMessage, out);
    *out += ",";
  } else if (const auto message = pod.spec->containers[index].script.message_of(end.attempt); !message.empty()) {
    add_text("message", fill_marks(message, end.started, pod.name()), out);
    *out += ",";
  }
  add_text("reason",
           end.reset       ? kResetReason
           : !end.located  ? "ContainerStatusUnknown"
           : end.at_boot   ? kBootReason
           : end.code == 0 ? "Completed"
                           : "Error",
           out);
  *out += fmt::format(",\"startedAt\":{}}}}}", time_or_null(end.started));
}

void add_state(const Pod& pod, size_t index, const StatusContext& context, std::string* out) {
  const Look& look = pod.runs[index].shown;
  if (look.state == RunState::kRunning) {
    *out += fmt::format("{{\"running\":{{\"startedAt\":{}}}}}", time_or_null(look.started_at));
  } else if (look.why != Why::kNone) {
    *out += "{\"waiting\":{";
    add_text("message", waiting_message(pod, index), out);
    *out += ",";
    add_text("reason", waiting_reason(look.why), out);
    *out += "}}";
  } else if (look.state == RunState::kExited) {
    add_ended(pod, index, look.end, context, out);
  } else {
    *out += "{\"waiting\":{";
    add_text("reason", pod.spec->init_count > 0 ? "PodInitializing" : "ContainerCreating", out);
    *out += "}}";
  }
}

void add_mounts(const Pod& pod, const std::string& mounts, std::string* out) {
  for (const char c : mounts) {
    if (c == kSuffixMark) {
      *out += pod.token_suffix();
    } else {
      *out += c;
    }
  }
}

void add_held(const Pod& pod, size_t index, const StatusContext& context, std::string* out) {
  const ContainerSpec& spec = pod.spec->containers[index];
  if (context.node.devices == nullptr || spec.devices.empty() || spec.init || spec.ephemeral) return;
  for (const ContainerDevices& held : context.node.devices->held(pod.uid(), spec.name)) {
    if (!out->empty()) *out += ",";
    *out += "{";
    add_text("name", held.resource, out);
    *out += ",\"resources\":[";
    for (const HeldDevice& device : held.devices) {
      if (out->back() != '[') *out += ",";
      *out += "{\"health\":";
      *out += device.healthy ? "\"Healthy\"," : "\"Unhealthy\",";
      add_text("resourceID", device.id, out);
      *out += "}";
    }
    *out += "]}";
  }
}

// The health of the devices that a container holds.
void add_devices(const Pod& pod, size_t index, const StatusContext& context, std::string* out) {
  std::string list;
  add_held(pod, index, context, &list);
  add_claimed(pod, index, context, &list);
  if (!list.empty()) *out += "\"allocatedResourcesStatus\":[" + list + "],";
}

// The id of the image a container was made of.
std::string id_of_image(const Pod& pod, size_t index, const std::string& image) {
  const std::string_view id = pod.extras != nullptr ? pod.extras->image_id(index) : std::string_view();
  return id.empty() ? image_id(image) : std::string(id);
}

void add_container(const Pod& pod, size_t index, const StatusContext& context, std::string* out) {
  const ContainerSpec& spec = pod.spec->containers[index];
  const Look& look = pod.runs[index].shown;
  const bool ran = look.state == RunState::kRunning || look.end.located || (look.last.known && !look.last.reset);
  const bool created = look.state != RunState::kAbsent && ran;
  const std::string& allocated = spec.ephemeral ? spec.allocated : pod.granted().containers[index].allocated;
  *out += "{";
  if (created && !allocated.empty()) *out += "\"allocatedResources\":" + allocated + ",";
  add_devices(pod, index, context, out);
  if (created) {
    add_text("containerID", container_id(pod, index, look.attempt, context.options.runtime_name), out);
    *out += ",";
  }
  const std::string& image = pod.runs[index].made_of != nullptr ? *pod.runs[index].made_of : spec.image;
  add_text("image", created ? normal_image_name(image) : spec.image, out);
  *out += ",";
  add_text("imageID", created ? id_of_image(pod, index, image) : "", out);
  *out += ",\"lastState\":";
  if (look.state == RunState::kExited && look.why != Why::kNone) {
    add_ended(pod, index, look.end, context, out);
  } else if (look.last.known) {
    add_ended(pod, index, look.last, context, out);
  } else {
    *out += "{}";
  }
  *out += ",";
  add_text("name", spec.name, out);
  *out += look.ready ? ",\"ready\":true" : ",\"ready\":false";
  if (created) {
    // What does not run has what is set aside for it.
    const bool runs = look.state == RunState::kRunning;
    const ContainerSpec& c = spec.ephemeral ? spec : (runs ? pod.in_force() : pod.granted()).containers[index];
    *out += ",\"resources\":" + (runs ? c.running_resources : c.resources);
  }
  *out += fmt::format(",\"restartCount\":{}", look.attempt);
  if (!spec.ephemeral) *out += look.started ? ",\"started\":true" : ",\"started\":false";
  *out += ",\"state\":";
  add_state(pod, index, context, out);
  if (!spec.mounts.empty()) {
    *out += ",\"volumeMounts\":";
    add_mounts(pod, spec.mounts, out);
  }
  *out += "}";
}

}  // namespace

void add_container_list(const Pod& pod, std::string_view field, const std::vector<uint32_t>& indexes,
                        const StatusContext& context, std::string* out) {
  *out += fmt::format("\"{}\":[", field);
  bool first = true;
  for (const uint32_t i : indexes) {
    if (!first) *out += ",";
    first = false;
    add_container(pod, i, context, out);
  }
  *out += "]";
}

void add_init_containers(const Pod& pod, const StatusContext& context, std::string* out) {
  *out += "\"initContainerStatuses\":[";
  for (size_t i = 0; i < pod.spec->init_count; ++i) {
    if (i > 0) *out += ",";
    add_container(pod, i, context, out);
  }
  *out += "]";
}

}  // namespace ghostfleet::agent
