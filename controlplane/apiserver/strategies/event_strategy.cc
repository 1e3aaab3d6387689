// Events, in both their forms: findings name the fields of the v1 form, as a real API server's do.
#include <fmt/format.h>

#include "controlplane/apiserver/strategies/event_conversion.h"
#include "controlplane/apiserver/strategies/kind_strategy.h"
#include "controlplane/apiserver/strategies/workload_common.h"
#include "kube/api/names.h"

namespace ghostfleet::controlplane {

using kube::Json;
using kube::JsonArray;
using kube::JsonObject;

namespace {

constexpr size_t kMaxReportingInstance = 128;
constexpr size_t kMaxAction = 128;
constexpr size_t kMaxReason = 128;
constexpr size_t kMaxNote = 1024;

bool is_new_form(StrategyContext& ctx) { return ctx.resource.info.group == "events.k8s.io"; }

void check_length(const Json& event, std::string_view key, size_t max, bool required, Findings& out) {
  std::string_view text = text_of(event, key);
  if (required && text.empty()) out.required(Path(key));
  if (text.size() > max) out.invalid_text(Path(key), "", fmt::format("can have at most {} characters", max));
}

void check_namespace(const Json& event, bool timed, Findings& out) {
  std::string_view ns = text_of(metadata_of(event), "namespace");
  const Json* about = member(event, "involvedObject");
  std::string_view about_ns = about == nullptr ? "" : text_of(*about, "namespace");
  bool wrong = timed              ? about_ns.empty() && ns != "default" && ns != "kube-system"
               : about_ns.empty() ? !ns.empty() && ns != "default"
                                  : about_ns != ns;
  if (wrong) out.invalid_text(Path("involvedObject.namespace"), about_ns, "does not match event.namespace");
}

// What both forms need.
void check_common(const Json& event, bool new_form, Findings& out) {
  bool timed = !text_of(event, "eventTime").empty();
  check_namespace(event, timed, out);
  if (!timed) return;
  Path reporting(new_form ? "reportingController" : "reportingComponent");
  std::string_view controller = text_of(event, "reportingComponent");
  if (controller.empty()) out.required(reporting);
  out.messages(reporting, controller, kube::check_qualified_name(controller));
  check_length(event, "reportingInstance", kMaxReportingInstance, true, out);
  check_length(event, "action", kMaxAction, true, out);
  check_length(event, "reason", kMaxReason, true, out);
  check_length(event, "message", kMaxNote, false, out);
}

void check_series(const Json& event, Findings& out) {
  const Json* series = member(event, "series");
  if (series == nullptr) return;
  if (int_of(*series, "count") < 2) out.invalid_text(Path("series.count"), "", "should be at least 2");
  if (text_of(*series, "lastObservedTime").empty()) out.required(Path("series.lastObservedTime"));
}

bool has_source(const Json& event) {
  const Json* source = member(event, "source");
  return source != nullptr && (!text_of(*source, "component").empty() || !text_of(*source, "host").empty());
}

void check_new_event(const Json& event, Findings& out) {
  check_series(event, out);
  if (text_of(event, "eventTime").empty()) out.required(Path("eventTime"));
  std::string_view type = text_of(event, "type");
  if (!one_of(type, {"Normal", "Warning"})) {
    out.invalid_text(Path("type"), "", fmt::format("has invalid value: {}", type));
  }
  for (std::string_view key : {"firstTimestamp", "lastTimestamp"}) {
    if (!text_of(event, key).empty()) out.invalid_text(Path(key), "", "needs to be unset");
  }
  if (int_of(event, "count") != 0) out.invalid_text(Path("count"), "", "needs to be unset");
  if (has_source(event)) out.invalid_text(Path("source"), "", "needs to be unset");
}

class EventStrategy final : public KindStrategy {
 public:
  using KindStrategy::KindStrategy;

 protected:
  void check(const Json& object, StrategyContext& ctx, Findings& out) const override {
    if (!is_new_form(ctx)) {
      check_common(object, false, out);
      return;
    }
    Json event = to_core_v1(object);
    check_common(event, true, out);
    check_new_event(event, out);
  }

  void check_update(const Json& object, const Json& old, StrategyContext& ctx, Findings& out) const override {
    if (!is_new_form(ctx)) {
      check_common(object, false, out);
      return;
    }
    Json event = to_core_v1(object);
    Json before = to_core_v1(old);
    check_common(event, true, out);
    if (!equal_members(event, before, "series")) check_series(event, out);
    for (std::string_view key : {"involvedObject", "reason", "message", "source", "firstTimestamp", "lastTimestamp",
                                 "count", "type", "eventTime", "action", "related"}) {
      keep(event, before, key, key, out);
    }
    keep(event, before, "reportingComponent", "reportingController", out);
    keep(event, before, "reportingInstance", "reportingInstance", out);
  }

 private:
  static bool is_empty(const Json* value) {
    return value == nullptr || (value->is_object() && value->get_object().empty());
  }

  static void keep(const Json& event, const Json& before, std::string_view key, std::string_view shown, Findings& out) {
    if (equal_members(event, before, key)) return;
    const Json* value = member(event, key);
    if (is_empty(value) && is_empty(member(before, key))) return;
    out.invalid(Path(shown), value == nullptr ? "\"\"" : json_text(*value), kImmutable);
  }
};

}  // namespace

StrategyPointer make_event_strategy(const KindTraits& traits) { return std::make_unique<EventStrategy>(traits); }

}  // namespace ghostfleet::controlplane
