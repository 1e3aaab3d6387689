// Interning of pod templates: a fingerprint of what matters in a pod finds the template without extracting it again.
#include <unordered_map>

#include "agent/behavior/behavior_declared.h"
#include "agent/pod/command_line.h"
#include "agent/pod/pod_template.h"
#include "base/hash.h"

namespace ghostfleet::agent {

using kube::Json;

namespace {

struct Fingerprint {
  uint64_t a = 0x243f6a8885a308d3ULL, b = 0x13198a2e03707344ULL;
  friend bool operator==(const Fingerprint&, const Fingerprint&) = default;
  void add(uint64_t v) {
    a = hash_mix(a, v);
    b = hash_mix(b + v, v ^ 0xa4093822299f31d0ULL);
  }
};

struct FingerprintHash {
  size_t operator()(const Fingerprint& f) const { return f.a; }
};

constexpr int kMaxDepth = 64;  // deeper parts of a spec do not matter to a node

class Printer {
 public:
  explicit Printer(std::string_view suffix) : suffix_(suffix) {}
  Fingerprint print;

  void text(std::string_view t) {
    // Each pod has its own name for the token volume; pods that differ in nothing else are alike.
    if (!suffix_.empty() && t.size() == 21 && t.ends_with(suffix_) && t.starts_with("kube-api-access-")) t = "\x01";
    print.add(hash_text(t));
  }

  void value(const Json& v, int depth) {
    print.add(static_cast<uint64_t>(v.kind()));
    if (depth > kMaxDepth) return;
    switch (v.kind()) {
      case boost::json::kind::string: text(v.get_string()); break;
      case boost::json::kind::array:
        print.add(v.get_array().size());
        for (const Json& item : v.get_array()) value(item, depth + 1);
        break;
      case boost::json::kind::object:
        print.add(v.get_object().size());
        for (const auto& [key, item] : v.get_object()) {
          text(key);
          value(item, depth + 1);
        }
        break;
      case boost::json::kind::int64: print.add(static_cast<uint64_t>(v.get_int64())); break;
      case boost::json::kind::uint64: print.add(v.get_uint64()); break;
      case boost::json::kind::bool_: print.add(v.get_bool() ? 1 : 0); break;
      default: break;
    }
  }

  // The parts of the spec that say which pod it is, not what it does.
  void spec(const Json& spec) {
    if (!spec.is_object()) return;
    const bool named_in_full = kube::get_bool(spec, "setHostnameAsFQDN");
    for (const auto& [key, item] : spec.get_object()) {
      const std::string_view k = key;
      if (k == "nodeName" || k == "affinity" || k == "tolerations" || k == "topologySpreadConstraints") continue;
      if (!named_in_full && (k == "hostname" || k == "subdomain")) continue;
      text(k);
      value(item, 1);
    }
  }

  void annotations(const Json& pod) {
    const kube::JsonObject* object = kube::get_object(pod, "metadata.annotations");
    if (object == nullptr) return;
    for (const auto& [key, item] : *object) {
      const std::string_view k = key;
      if (!k.starts_with(kBehaviorPrefix) && !k.starts_with(kFilesPrefix) && !k.starts_with(kExecPrefix)) continue;
      text(key);
      value(item, 1);
    }
  }

  // Which rule counts for each container.
  void rules(const Json& pod, const BehaviorRules& list) {
    print.add(list.id());
    for (const std::string_view part : {"spec.initContainers", "spec.containers", "spec.ephemeralContainers"}) {
      const kube::JsonArray* containers = kube::get_array(pod, part);
      if (containers == nullptr) continue;
      for (const Json& container : *containers) print.add(static_cast<uint64_t>(list.find(pod, container) + 1));
    }
  }

  // What a variable of a container may hold.
  void metadata(const Json& pod) {
    for (const std::string_view part : {"metadata.name", "metadata.namespace", "metadata.uid", "metadata.labels",
                                        "metadata.annotations", "spec.nodeName"}) {
      if (const Json* found = kube::find_path(pod, part)) value(*found, 1);
    }
  }

  void owners(const Json& pod) {
    const kube::JsonArray* list = kube::get_array(pod, "metadata.ownerReferences");
    if (list == nullptr) return;
    for (const Json& owner : *list) {
      if (!kube::get_bool(owner, "controller")) continue;
      text(kube::get_string(owner, "kind"));
    }
  }

 private:
  std::string_view suffix_;
};

class TemplateTable {
 public:
  std::shared_ptr<const PodTemplate> get(const Json& pod, bool commands, const BehaviorRules* rules) {
    Printer printer(token_suffix(pod));
    printer.print.add(commands ? 1 : 0);
    if (commands && depends_on_metadata(pod)) printer.metadata(pod);
    if (const Json* spec = kube::find_key(pod, "spec")) printer.spec(*spec);
    printer.annotations(pod);
    printer.owners(pod);
    if (rules != nullptr) printer.rules(pod, *rules);
    std::weak_ptr<const PodTemplate>& slot = table_[printer.print];
    std::shared_ptr<const PodTemplate> found = slot.lock();
    if (found != nullptr) return found;
    found = make_template(pod, commands, rules);
    slot = found;
    if (table_.size() > limit_) drop_unused();
    return found;
  }

 private:
  void drop_unused() {
    std::erase_if(table_, [](const auto& entry) { return entry.second.expired(); });
    limit_ = table_.size() * 2 + 64;
  }

  std::unordered_map<Fingerprint, std::weak_ptr<const PodTemplate>, FingerprintHash> table_;
  size_t limit_ = 64;
};

}  // namespace

std::shared_ptr<const PodTemplate> intern_template(const Json& pod, bool commands, const BehaviorRules* rules) {
  thread_local TemplateTable table;
  return table.get(pod, commands, rules);
}

}  // namespace ghostfleet::agent
