#include "controlplane/apiserver/pretty.h"

namespace ghostfleet::controlplane {
namespace {

void append_pretty(const kube::Json& value, int depth, std::string* out) {
  const auto line = [&](int levels) {
    out->push_back('\n');
    out->append(static_cast<size_t>(levels) * 2, ' ');
  };
  if (value.is_object() && !value.as_object().empty()) {
    out->push_back('{');
    bool first = true;
    for (const auto& member : value.as_object()) {
      if (!first) out->push_back(',');
      first = false;
      line(depth + 1);
      kube::append_json_string(member.key(), out);
      out->append(": ");
      append_pretty(member.value(), depth + 1, out);
    }
    line(depth);
    out->push_back('}');
  } else if (value.is_array() && !value.as_array().empty()) {
    out->push_back('[');
    bool first = true;
    for (const kube::Json& element : value.as_array()) {
      if (!first) out->push_back(',');
      first = false;
      line(depth + 1);
      append_pretty(element, depth + 1, out);
    }
    line(depth);
    out->push_back(']');
  } else {
    kube::append_json(value, out);
  }
}

}  // namespace

std::string pretty_json(const kube::Json& value) {
  std::string out;
  append_pretty(value, 0, &out);
  return out;
}

}  // namespace ghostfleet::controlplane
