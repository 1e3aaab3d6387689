#include "agent/behavior/behavior_declared.h"

#include <fmt/format.h>

#include <algorithm>
#include <optional>

#include "kube/api/json.h"

namespace ghostfleet::agent {

using kube::Json;

namespace {

constexpr size_t kMaxProblems = 8;

void complain(std::vector<std::string>* problems, std::string text) {
  if (problems != nullptr && problems->size() < kMaxProblems) problems->push_back(std::move(text));
}

// The object of an annotation; nothing, after a complaint, when it is none.
std::optional<kube::JsonObject> read_object(std::string_view text, std::string_view example,
                                            std::vector<std::string>* problems) {
  auto value = kube::parse_json(text);
  if (!value.ok()) {
    complain(problems, fmt::format("no JSON ({}): {} is expected", value.error().message(), example));
    return std::nullopt;
  }
  if (!value->is_object()) {
    complain(problems, fmt::format("{}: {} is expected", kube::to_json(*value).substr(0, 40), example));
    return std::nullopt;
  }
  if (value->get_object().size() > kMaxDeclared) {
    complain(problems, fmt::format("more than {} entries", kMaxDeclared));
    return std::nullopt;
  }
  return std::move(value->get_object());
}

std::string shown(std::string_view key) { return "\"" + std::string(key.substr(0, 64)) + "\""; }

bool read_field(std::string_view command, std::string_view key, const Json& value, DeclaredAnswer* out,
                std::vector<std::string>* problems) {
  const auto wrong = [&](std::string_view what) {
    complain(problems, fmt::format("{}: {}: {}", shown(command), key.substr(0, 32), what));
    return false;
  };
  if (key == "stdout" || key == "stderr") {
    if (!value.is_string()) return wrong("a text is expected");
    (key == "stdout" ? out->out : out->err) = std::string_view(value.get_string());
    return true;
  }
  if (key != "exit") return wrong("unknown; known are stdout, stderr, exit");
  if (!value.is_int64() || value.get_int64() < 0 || value.get_int64() > 255)
    return wrong("a code from 0 to 255 is expected");
  out->exit_code = static_cast<int>(value.get_int64());
  return true;
}

}  // namespace

std::vector<std::pair<std::string, std::string>> read_declared_files(std::string_view text,
                                                                     std::vector<std::string>* problems) {
  std::vector<std::pair<std::string, std::string>> out;
  const auto object = read_object(text, R"({"/path":"content"})", problems);
  if (!object) return out;
  for (const auto& [key, content] : *object) {
    const std::string_view path = key;
    if (!path.starts_with('/')) {
      complain(problems, shown(path) + ": a path from / on is expected");
    } else if (!content.is_string()) {
      complain(problems, shown(path) + ": its content as a text is expected");
    } else {
      out.emplace_back(path, std::string_view(content.get_string()));
    }
  }
  return out;
}

std::vector<DeclaredAnswer> read_declared_answers(std::string_view text, std::vector<std::string>* problems) {
  std::vector<DeclaredAnswer> out;
  const auto object = read_object(text, R"({"command line":{"stdout":"","stderr":"","exit":0}})", problems);
  if (!object) return out;
  for (const auto& [command, answer] : *object) {
    if (!answer.is_object()) {
      complain(problems, shown(command) + R"(: {"stdout":"","stderr":"","exit":0} is expected)");
      continue;
    }
    DeclaredAnswer declared;
    declared.command = std::string_view(command);
    for (const auto& [key, value] : answer.get_object()) {
      read_field(command, key, value, &declared, problems);
    }
    out.push_back(std::move(declared));
  }
  return out;
}

}  // namespace ghostfleet::agent
