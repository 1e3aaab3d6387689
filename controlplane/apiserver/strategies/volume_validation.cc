// Volumes of a pod: names, and the sources people really use; exotic in-tree sources pass as they are.
#include <fmt/format.h>

#include "controlplane/apiserver/strategies/pod_validation.h"
#include "controlplane/apiserver/strategies/resources.h"
#include "kube/api/names.h"

namespace ghostfleet::controlplane {

using kube::Json;
using kube::JsonArray;
using kube::JsonObject;

namespace {

constexpr std::string_view kModeMessage = "must be a number between 0 and 0777 (octal), both inclusive";

void check_relative_path(std::string_view text, const Path& path, Findings& out) {
  if (text.starts_with('/')) out.invalid_text(path, text, "must be a relative path");
  if (text == ".." || text.starts_with("../") || text.ends_with("/..") || text.find("/../") != std::string_view::npos) {
    out.invalid_text(path, text, "must not contain '..'");
  }
  if (text.starts_with("..") && !text.starts_with("../") && text != "..") {
    out.invalid_text(path, text, "must not start with '..'");
  }
}

void check_items(const Json& source, const Path& path, Findings& out) {
  const JsonArray* items = array_of(source, "items");
  if (items == nullptr) return;
  for (size_t i = 0; i < items->size(); ++i) {
    Path at = path.child("items", i);
    if (text_of((*items)[i], "key").empty()) out.required(at.child("key"));
    std::string_view where = text_of((*items)[i], "path");
    if (where.empty()) out.required(at.child("path"));
    check_relative_path(where, at.child("path"), out);
    check_mode((*items)[i], "mode", at, out);
  }
}

void check_downward_items(const Json& source, const Path& path, Findings& out) {
  const JsonArray* items = array_of(source, "items");
  if (items == nullptr) return;
  for (size_t i = 0; i < items->size(); ++i) {
    Path at = path.child("items", i);
    std::string_view where = text_of((*items)[i], "path");
    if (where.empty()) out.required(at.child("path"));
    check_relative_path(where, at.child("path"), out);
    const Json* field = member((*items)[i], "fieldRef");
    if (field != nullptr) {
      check_field_ref(*field, at.child("fieldRef"), true, out);
      if (member((*items)[i], "resourceFieldRef") != nullptr) {
        out.invalid_text(at, "resource", "fieldRef and resourceFieldRef can not be specified simultaneously");
      }
    } else if (member((*items)[i], "resourceFieldRef") == nullptr) {
      out.required(at, "one of fieldRef and resourceFieldRef is required");
    }
    check_mode((*items)[i], "mode", at, out);
  }
}

void check_host_path(const Json& source, const Path& path, Findings& out) {
  std::string_view where = text_of(source, "path");
  if (where.empty()) {
    out.required(path.child("path"));
    return;
  }
  if (where == ".." || where.starts_with("../") || where.ends_with("/..") ||
      where.find("/../") != std::string_view::npos) {
    out.invalid_text(path.child("path"), where, "must not contain '..'");
  }
  std::string_view type = text_of(source, "type");
  if (!one_of(type,
              {"", "DirectoryOrCreate", "Directory", "FileOrCreate", "File", "Socket", "CharDevice", "BlockDevice"})) {
    out.not_supported(
        path.child("type"), type,
        {"", "BlockDevice", "CharDevice", "Directory", "DirectoryOrCreate", "File", "FileOrCreate", "Socket"});
  }
}

void check_token_projection(const Json& token, const Path& path, Findings& out) {
  int64_t expiration = int_of(token, "expirationSeconds", 3600);
  if (expiration < 600) {
    out.invalid_number(path.child("expirationSeconds"), expiration, "may not specify a duration less than 10 minutes");
  } else if (expiration > (int64_t{1} << 32)) {
    out.invalid_number(path.child("expirationSeconds"), expiration,
                       "may not specify a duration larger than 2^32 seconds");
  }
  if (text_of(token, "path").empty()) {
    out.required(path.child("path"));
  } else {
    check_relative_path(text_of(token, "path"), path.child("path"), out);
  }
}

void check_projected(const Json& source, const Path& path, Findings& out) {
  check_mode(source, "defaultMode", path, out);
  const JsonArray* sources = array_of(source, "sources");
  if (sources == nullptr) return;
  for (size_t i = 0; i < sources->size(); ++i) {
    const Json& part = (*sources)[i];
    Path at = path.child("sources", i);
    int count = 0;
    for (std::string_view key :
         {"secret", "configMap", "downwardAPI", "serviceAccountToken", "clusterTrustBundle", "podCertificate"}) {
      const Json* found = member(part, key);
      if (found == nullptr) continue;
      Path part_path = at.child(key);
      if (++count > 1) {
        out.forbidden(part_path, "may not specify more than 1 volume type");
      } else if (key == "secret" || key == "configMap") {
        if (text_of(*found, "name").empty()) out.required(part_path.child("name"));
        check_items(*found, part_path, out);
      } else if (key == "downwardAPI") {
        check_downward_items(*found, part_path, out);
      } else if (key == "serviceAccountToken") {
        check_token_projection(*found, part_path, out);
      }
    }
    if (count == 0) out.required(at, "must specify a volume type");
  }
}

void check_source(std::string_view key, const Json& source, const Path& path, Findings& out) {
  if (key == "hostPath") {
    check_host_path(source, path, out);
  } else if (key == "emptyDir") {
    std::string_view limit = text_of(source, "sizeLimit");
    if (!limit.empty() && quantity_of(limit).sign() < 0) {
      out.forbidden(path.child("sizeLimit"), "SizeLimit field must be a valid resource quantity");
    }
  } else if (key == "secret") {
    if (text_of(source, "secretName").empty()) out.required(path.child("secretName"));
    check_mode(source, "defaultMode", path, out);
    check_items(source, path, out);
  } else if (key == "configMap") {
    if (text_of(source, "name").empty()) out.required(path.child("name"));
    check_mode(source, "defaultMode", path, out);
    check_items(source, path, out);
  } else if (key == "persistentVolumeClaim") {
    if (text_of(source, "claimName").empty()) out.required(path.child("claimName"));
  } else if (key == "downwardAPI") {
    check_mode(source, "defaultMode", path, out);
    check_downward_items(source, path, out);
  } else if (key == "projected") {
    check_projected(source, path, out);
  } else if (key == "nfs") {
    if (text_of(source, "server").empty()) out.required(path.child("server"));
    std::string_view where = text_of(source, "path");
    if (where.empty()) out.required(path.child("path"));
    if (!where.empty() && where[0] != '/') out.invalid_text(path.child("path"), where, "must be an absolute path");
  } else if (key == "csi") {
    if (text_of(source, "driver").empty()) out.required(path.child("driver"));
  } else if (key == "ephemeral") {
    if (member(source, "volumeClaimTemplate") == nullptr) out.required(path.child("volumeClaimTemplate"));
  }
}

}  // namespace

void check_mode(const Json& owner, std::string_view key, const Path& path, Findings& out) {
  const Json* mode = member(owner, key);
  if (mode != nullptr && (as_int(*mode) < 0 || as_int(*mode) > 0777)) {
    out.invalid_number(path.child(key), as_int(*mode), kModeMessage);
  }
}

NameSet check_volumes(const Json& spec, const Path& path, Findings& out) {
  NameSet names;
  const JsonArray* volumes = array_of(spec, "volumes");
  if (volumes == nullptr) return names;
  for (size_t i = 0; i < volumes->size(); ++i) {
    const Json& volume = (*volumes)[i];
    Path at = path.child("volumes", i);
    size_t before = out.size();
    int count = 0;
    for (const auto& entry : volume.get_object()) {
      if (entry.key() == "name" || entry.value().is_null()) continue;
      Path source = at.child(entry.key());
      if (++count > 1) {
        out.forbidden(source, "may not specify more than 1 volume type");
      } else {
        check_source(entry.key(), entry.value(), source, out);
      }
    }
    std::string_view name = text_of(volume, "name");
    if (name.empty()) {
      out.required(at.child("name"));
    } else {
      out.messages(at.child("name"), name, kube::check_dns1123_label(name));
    }
    if (names.contains(name)) out.duplicate(at.child("name"), name);
    if (out.size() == before) names.insert(name);
  }
  return names;
}

}  // namespace ghostfleet::controlplane
