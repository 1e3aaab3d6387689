#include "emulator/profile/behavior_file.h"

#include <fmt/format.h>

#include <algorithm>
#include <cctype>
#include <optional>

#include "base/files.h"
#include "kube/api/names.h"

namespace ghostfleet::emulator {
namespace {

using agent::BehaviorRule;
using agent::BehaviorRules;
using agent::Histograms;
using agent::ValueHistogram;
using kube::Json;

constexpr size_t kMaxHistograms = 100;

// "stop-after" is written stopAfter, as all fields of these files.
std::string field_of(std::string_view word) {
  std::string out;
  for (size_t i = 0; i < word.size(); ++i) {
    const bool dash = word[i] == '-' && i + 1 < word.size();
    out += dash ? static_cast<char>(std::toupper(static_cast<unsigned char>(word[++i]))) : word[i];
  }
  return out;
}

std::optional<std::string> scalar_text(const Json& value) {
  if (value.is_string()) return std::string(std::string_view(value.get_string()));
  if (value.is_number()) return kube::to_json(value);
  return std::nullopt;
}

void read_histograms(ObjectReader* reader, const TextLoader& load, Histograms* out) {
  for (const auto& [name, path] : reader->text_map("histograms")) {
    const std::string at = "histograms." + name;
    if (!kube::check_dns1123_label(name).empty()) {
      reader->complain(at, "", "a name of lower-case letters, digits and - is expected");
    } else if (out->size() == kMaxHistograms) {
      reader->complain(at, "", "more than 100 histograms");
    } else if (auto text = load(path); !text.ok()) {
      reader->complain(at, path, text.error().message());
    } else if (auto histogram = ValueHistogram::parse(*text, path); !histogram.ok()) {
      reader->complain(at, "", histogram.error().message());
    } else {
      (*out)[name] = std::make_shared<const ValueHistogram>(std::move(*histogram));
    }
  }
}

void read_match(ObjectReader reader, agent::BehaviorMatch* out) {
  out->ns = reader.text("namespace");
  out->owner = reader.text("owner");
  out->image = reader.text("image");
  out->container = reader.text("container");
  const std::string labels = reader.text("labels");
  auto selector = kube::LabelSelector::parse(labels);
  if (selector.ok()) {
    out->labels = std::move(*selector);
  } else {
    reader.complain("labels", "\"" + labels + "\"", "a label selector such as app=train,tier in (a, b) is expected");
  }
  if (!out->owner.empty() && std::islower(static_cast<unsigned char>(out->owner[0])) != 0)
    reader.complain("owner", out->owner, "a kind such as Job or ReplicaSet, or None, is expected");
  reader.finish();
}

// The values of one field as words: a text or number is one; a list of log lines or reads is several, one of exit codes
// one.
std::vector<std::string> values_of(ObjectReader* reader, const std::string& word, const std::string& field) {
  const Json* value = reader->value(field);
  if (value == nullptr) return {};
  if (auto text = scalar_text(*value)) return {*text};
  if (value->is_array() && (word == "exit" || word == "log" || word == "read")) {
    std::vector<std::string> list = reader->text_list(field);
    if (word != "exit") return list;
    return {fmt::format("{}", fmt::join(list, ","))};
  }
  if (value->is_object() && word == "exit") {
    std::string odds;
    for (const auto& [code, share] : reader->text_map(field)) odds += (odds.empty() ? "" : ",") + code + ":" + share;
    return {"odds(" + odds + ")"};
  }
  const std::string_view right = word == "exit"
                                     ? "a code, a list of codes, or a mapping {code: probability} is expected"
                                 : word == "log" || word == "read" ? "a text or a list of texts is expected"
                                                                   : "a text or a number is expected";
  reader->complain(field, kube::to_json(*value).substr(0, 60), right);
  return {};
}

void read_words(ObjectReader reader, const Histograms& histograms, BehaviorRule* out) {
  agent::ScriptReader check({}, &histograms);
  for (const auto& [name, value] : reader.text_map("volumes")) {
    const std::string wrong = check.take("volume:" + name, value);
    if (!wrong.empty()) reader.complain("volumes." + name, "\"" + value.substr(0, 60) + "\"", wrong);
    out->words.emplace_back("volume:" + name, value);
  }
  for (const std::string& word : agent::behavior_words()) {
    if (word.find(':') != std::string::npos) continue;  // volume:NAME
    const std::string field = field_of(word);
    for (std::string& value : values_of(&reader, word, field)) {
      const std::string wrong = check.take(word, value);
      if (!wrong.empty()) reader.complain(field, "\"" + value.substr(0, 60) + "\"", wrong);
      out->words.emplace_back(word, std::move(value));
    }
  }
  const auto has = [&](std::string_view word) {
    return std::any_of(out->words.begin(), out->words.end(), [&](const auto& w) { return w.first == word; });
  };
  for (const std::string_view word : {"crash-after", "crash-exit", "crash-attempts"}) {
    if (has(word) && !has("crash"))
      reader.complain(field_of(word), "", "counts only with crash, the probability that an attempt crashes");
  }
  reader.finish();
  if (out->words.empty())
    reader.complain("", "", "at least one of exit, after, ready, log, crash, cpu ... is expected");
}

}  // namespace

TextLoader load_beside(const std::string& file) {
  return [folder = parent_directory(expand_home(file))](const std::string& path) {
    return read_file(join_path(folder, expand_home(path)), ValueHistogram::kMaxText);
  };
}

std::shared_ptr<const BehaviorRules> read_behavior_rules(ObjectReader* reader, const TextLoader& load) {
  const bool there = reader->has("histograms") || reader->has("behaviorRules");
  Histograms histograms;
  read_histograms(reader, load, &histograms);
  std::vector<BehaviorRule> rules;
  for (ObjectReader& item : reader->list("behaviorRules")) {
    BehaviorRule rule;
    read_match(item.object("match"), &rule.match);
    if (!item.has("behavior")) item.complain_missing("behavior");
    if (item.has("behavior")) read_words(item.object("behavior"), histograms, &rule);
    (void)item.value("behavior");
    item.finish();
    if (rules.size() == BehaviorRules::kMaxRules) {
      item.complain("", "", "more than 1000 rules");
      break;
    }
    rules.push_back(std::move(rule));
  }
  return there ? std::make_shared<const BehaviorRules>(std::move(rules), std::move(histograms)) : nullptr;
}

Result<std::shared_ptr<const BehaviorRules>> parse_behavior_rules(std::string_view text, const std::string& file,
                                                                  TextLoader load) {
  auto document = Document::parse(text, file);
  if (!document.ok()) return document.error();
  if (!document->root().is_object())
    return invalid_argument(file + ": a mapping with behaviorRules (a list) and perhaps histograms is expected");
  ObjectReader root(&*document, &document->root(), "");
  auto rules = read_behavior_rules(&root, load ? load : load_beside(file));
  root.finish();
  GF_RETURN_IF_ERROR(document->status());
  return rules;
}

}  // namespace ghostfleet::emulator
