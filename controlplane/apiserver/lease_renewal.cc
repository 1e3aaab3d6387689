#include "controlplane/apiserver/lease_renewal.h"

#include <array>

#include "base/clock.h"
#include "controlplane/apiserver/json_scan.h"

namespace ghostfleet::controlplane {
namespace {

constexpr std::string_view kApiVersion = "\"coordination.k8s.io/v1\"";
constexpr std::string_view kMicroTime = "\"0000-00-00T00:00:00.000000Z\"";
constexpr std::string_view kTime = "\"0000-00-00T00:00:00Z\"";

struct Member {
  std::string_view key, value;  // raw
  bool seen = false;
};

// The members of one JSON object; what is unusual (white space, escaped keys, too many) is not well formed here.
class Members {
 public:
  explicit Members(std::string_view object) { well_formed_ = read(object); }

  bool well_formed() const { return well_formed_; }
  Member* begin() { return members_.data(); }
  Member* end() { return members_.data() + count_; }
  Member* find(std::string_view key) {
    for (Member& m : *this) {
      if (m.key == key) return &m;
    }
    return nullptr;
  }
  std::string_view value(std::string_view key) {
    const Member* m = find(key);
    return m ? m->value : std::string_view();
  }

 private:
  bool read(std::string_view object) {
    if (object.size() < 2 || object[0] != '{') return false;
    for (size_t pos = 1; count_ < members_.size(); count_++) {
      if (pos >= object.size() || object[pos] != '"') return false;
      const size_t quote = object.find('"', pos + 1);
      if (quote == std::string_view::npos || quote + 1 >= object.size() || object[quote + 1] != ':') return false;
      const std::string_view key = object.substr(pos + 1, quote - pos - 1);
      if (key.find('\\') != std::string_view::npos) return false;
      const size_t end = skip_json_value(object, quote + 2);
      if (end == std::string_view::npos || end >= object.size()) return false;
      members_[count_] = {key, object.substr(quote + 2, end - quote - 2)};
      if (object[end] == '}') {
        count_++;
        return end + 1 == object.size();
      }
      if (object[end] != ',') return false;
      pos = end + 1;
    }
    return false;
  }

  std::array<Member, 16> members_;
  size_t count_ = 0;
  bool well_formed_ = false;
};

bool has_form(std::string_view text, std::string_view form) {
  if (text.size() != form.size()) return false;
  for (size_t i = 0; i < text.size(); i++) {
    const bool digit = text[i] >= '0' && text[i] <= '9';
    if (form[i] == '0' ? !digit : text[i] != form[i]) return false;
  }
  return true;
}

bool is_micro_time(std::string_view raw) {
  WallTime ignored;
  return has_form(raw, kMicroTime) && parse_time(raw.substr(1, raw.size() - 2), &ignored);
}

// Every member of `written` is one of `known` with the same value, each once.
bool takes_back(Members& written, Members& known, std::string_view but_for) {
  for (const Member& m : written) {
    Member* mine = known.find(m.key);
    if (!mine || mine->seen) return false;
    mine->seen = true;
    if (m.key != but_for && m.value != mine->value) return false;
  }
  return true;
}

bool same_metadata(std::string_view written, Members& known) {
  Members metadata(written);
  if (!metadata.well_formed() || !metadata.find("resourceVersion")) return false;
  if (known.find("deletionTimestamp") || !takes_back(metadata, known, "")) return false;
  for (const Member& m : known) {
    const bool servers = m.key == "uid" || m.key == "creationTimestamp" || m.key == "managedFields";
    if (!m.seen && !servers) return false;
  }
  return true;
}

// The new renewTime with its quotes; empty when more or less than that is written.
std::string_view new_time(std::string_view written, Members& known) {
  Members spec(written);
  if (!spec.well_formed() || !takes_back(spec, known, "renewTime")) return {};
  for (const Member& m : known) {
    if (!m.seen) return {};
  }
  const std::string_view before = known.value("renewTime"), after = spec.value("renewTime");
  return before != after && has_form(before, kMicroTime) && is_micro_time(after) ? after : std::string_view();
}

// The time of the one entry of ownership, when it is this manager's and holds renewTime.
std::string_view entry_time(std::string_view entries, const RenewalContext& context) {
  if (!context.tracks_fields || entries.size() < 4 || entries.front() != '[' || entries.back() != ']') return {};
  Members entry(entries.substr(1, entries.size() - 2));
  if (!entry.well_formed() || entry.find("subresource")) return {};
  const std::string_view manager = entry.value("manager");
  if (manager.size() < 2 || manager.substr(1, manager.size() - 2) != context.field_manager) return {};
  if (entry.value("operation") != "\"Update\"" || entry.value("apiVersion") != kApiVersion) return {};
  if (entry.value("fieldsV1").find("\"f:renewTime\":{}") == std::string_view::npos) return {};
  const std::string_view time = entry.value("time");
  return has_form(time, kTime) && context.now.size() + 2 == time.size() ? time : std::string_view();
}

std::string_view without_trailing_space(std::string_view text) {
  while (!text.empty() && (text.back() == '\n' || text.back() == ' ')) text.remove_suffix(1);
  return text;
}

}  // namespace

std::optional<EncodedObject> renewed_lease(const Object& stored, std::string_view body, const RenewalContext& context) {
  const std::string_view json = stored.json;
  Members known(json), written(without_trailing_space(body));
  if (!known.well_formed() || !written.well_formed()) return std::nullopt;
  for (const std::string_view key : {"kind", "apiVersion"}) {
    if (written.value(key).empty() || written.value(key) != known.value(key)) return std::nullopt;
  }
  if (known.end() - known.begin() != 4 || written.end() - written.begin() != 4) return std::nullopt;
  Members metadata(known.value("metadata")), spec(known.value("spec"));
  if (!metadata.well_formed() || !spec.well_formed()) return std::nullopt;
  if (!same_metadata(written.value("metadata"), metadata)) return std::nullopt;
  const std::string_view time = new_time(written.value("spec"), spec);
  if (time.empty()) return std::nullopt;
  const std::string_view entries = metadata.value("managedFields"), owned = entry_time(entries, context);
  if (!entries.empty() && owned.empty()) return std::nullopt;
  EncodedObject renewed{stored.json, stored.revision_offset};
  renewed.json.replace(static_cast<size_t>(spec.value("renewTime").data() - json.data()), time.size(), time);
  if (!owned.empty()) {
    renewed.json.replace(static_cast<size_t>(owned.data() - json.data()) + 1, context.now.size(), context.now);
  }
  return renewed;
}

}  // namespace ghostfleet::controlplane
