#include "kube/client/watch_decoder.h"

#include "kube/client/json_skim.h"

namespace ghostfleet::kube {

Status WatchDecoder::feed(std::string_view bytes, const std::function<bool(std::string_view line)>& fn) {
  const Status too_long(Code::kResourceExhausted,
                        "an event of the watch is longer than " + std::to_string(max_line_) + " bytes");
  while (!bytes.empty()) {
    const size_t end = bytes.find('\n');
    const std::string_view part = bytes.substr(0, end);
    if (buffer_.size() + part.size() > max_line_) return too_long;
    if (end == std::string_view::npos) {
      buffer_.append(part);
      return Status();
    }
    bytes.remove_prefix(end + 1);
    std::string joined;  // the callback may reset the decoder
    std::string_view line = part;
    if (!buffer_.empty()) {
      joined.swap(buffer_);
      joined.append(part);
      line = joined;
    }
    if (!line.empty() && line.back() == '\r') line.remove_suffix(1);
    if (!line.empty() && !fn(line)) return Status();
  }
  return Status();
}

bool parse_watch_event(std::string_view line, WatchEvent* out) {
  *out = WatchEvent();
  const bool whole = for_each_json_member(line, [&](std::string_view key, std::string_view value) {
    if (key == "type")
      out->type = json_raw_string(value);
    else if (key == "object")
      out->object = value;
    return true;
  });
  return whole && !out->type.empty() && !out->object.empty();
}

bool view_object(std::string_view json, ObjectView* out) {
  *out = ObjectView();
  out->json = json;
  return for_each_json_member(json_member(json, "metadata"), [&](std::string_view key, std::string_view value) {
    if (key == "name")
      out->name = json_raw_string(value);
    else if (key == "namespace")
      out->ns = json_raw_string(value);
    else if (key == "uid")
      out->uid = json_raw_string(value);
    else if (key == "resourceVersion")
      out->resource_version = json_raw_string(value);
    return true;
  });
}

bool ends_initial_events(std::string_view object) {
  const std::string_view annotations = json_member(json_member(object, "metadata"), "annotations");
  return json_raw_string(json_member(annotations, "k8s.io/initial-events-end")) == "true";
}

}  // namespace ghostfleet::kube
