#include "core/grammar/schema_parts.h"

#include <algorithm>
#include <iterator>

#include "core/base/format.h"

namespace edgedec::engine {
namespace {

constexpr size_t kMostParts = 256, kMostOptions = 1000;

// Keywords that are read, here or where their type is.
constexpr std::string_view kRefused[] = {
    "not", "if", "then", "else", "uniqueItems", "contains", "minContains", "maxContains", "propertyNames", "dependencies",
    "dependentRequired", "dependentSchemas", "unevaluatedItems", "unevaluatedProperties", "$dynamicRef", "$recursiveRef"};

struct TypeName {
  std::string_view name;
  uint8_t types;
};
constexpr TypeName kTypeNames[] = {{"null", kTypeNull},       {"boolean", kTypeFlag}, {"integer", kTypeInteger},
                                   {"number", kTypeNumber},   {"string", kTypeText},  {"array", kTypeList},
                                   {"object", kTypeObject}};

// Whether every value keeps to a keyword as it stands.
bool says_nothing(std::string_view keyword, JsonValue schema) {
  const JsonValue value = schema[keyword];
  const bool empty = value.is_object() && value.size() == 0;
  if (keyword == "if") return schema["then"].missing() && schema["else"].missing();
  if (keyword == "then" || keyword == "else") return schema["if"].missing();
  if (keyword == "minContains" || keyword == "maxContains") return schema["contains"].missing();
  if (keyword == "uniqueItems" || keyword == "not") return value.flag() == false;
  const bool texts = value.size() == 1 && value["type"].text() == "string";
  if (keyword == "propertyNames") return value.flag() == true || empty || texts;
  if (keyword.substr(0, 11) == "unevaluated") return value.flag() == true || empty;
  return keyword.substr(0, 6) == "depend" && empty;
}

Status check_keywords(const SchemaPart& part) {
  for (std::string_view keyword : kRefused) {
    if (part.value[keyword].missing() || says_nothing(keyword, part.value)) continue;
    return refused(keyword, part.place, "cannot be kept to", "leave it out");
  }
  return {};
}

Status add_types(JsonValue value, const std::string& place, uint8_t* types) {
  if (value.missing()) return {};
  uint8_t named = 0;
  for (size_t at = 0; at < (value.is_list() ? value.size() : 1); ++at) {
    const auto text = (value.is_list() ? value.at(at) : value).text();
    const auto named_so = [&](const TypeName& one) { return text == one.name; };
    const auto known = std::find_if(std::begin(kTypeNames), std::end(kTypeNames), named_so);
    if (known == std::end(kTypeNames))
      return refused("type", place, "is none", "there are null, boolean, integer, number, string, array, object");
    named |= known->types;
  }
  *types &= named;
  return {};
}

// Whether a schema names its own keys before those of what `keyword` brings in.
bool names_before(JsonValue schema, std::string_view keyword) {
  for (size_t at = 0; at < schema.size(); ++at) {
    if (schema.at(at).key() == keyword) return false;
    if (schema.at(at).key() == "properties") return true;
  }
  return true;
}

int hex_digit(char digit) {
  if (digit >= '0' && digit <= '9') return digit - '0';
  const char lower = static_cast<char>(digit | 0x20);
  return lower >= 'a' && lower <= 'f' ? lower - 'a' + 10 : -1;
}

// A step of a JSON pointer in a URI.
std::string unescaped(std::string_view step) {
  std::string found;
  for (size_t at = 0; at < step.size(); ++at) {
    if (step[at] == '%' && at + 2 < step.size() && hex_digit(step[at + 1]) >= 0 && hex_digit(step[at + 2]) >= 0) {
      found += static_cast<char>(16 * hex_digit(step[at + 1]) + hex_digit(step[at + 2]));
      at += 2;
    } else if (step[at] == '~' && at + 1 < step.size() && (step[at + 1] == '0' || step[at + 1] == '1')) {
      found += step[++at] == '0' ? '~' : '/';
    } else {
      found += step[at];
    }
  }
  return found;
}

// Takes references and allOf of a conjunction apart.
class Expansion {
 public:
  Expansion(JsonValue root, Conjunction* all) : root_(root), all_(*all), by_(all->parts.size(), -1) {}

  Status run(bool* none) {
    std::vector<SchemaPart>& parts = all_.parts;
    for (size_t at = 0; at < parts.size() && !*none;) {
      if (parts.size() > kMostParts) return refused("allOf", parts[at].place, "has too many parts", "use fewer");
      bool again = false;
      EDGEDEC_TRY(part(at, &again, none));
      at += !again;
    }
    return {};
  }

 private:
  // `*again`: another part, or none, stands at this place now.
  Status part(size_t at, bool* again, bool* none) {
    SchemaPart& one = all_.parts[at];
    if (one.used & SchemaPart::kIsValue) return {};
    if (one.value.flag()) {
      *none = !*one.value.flag();
      *again = true;
      all_.parts.erase(all_.parts.begin() + static_cast<long>(at));
      by_.erase(by_.begin() + static_cast<long>(at));
      return {};
    }
    if (!one.value.is_object()) return refused("", one.place, "is no schema", "a schema is an object, true or false");
    if (!(one.used & SchemaPart::kRef) && !one.value["$ref"].missing()) return reference(at, again, none);
    if (!(one.used & SchemaPart::kAllOf) && !one.value["allOf"].missing()) return all_of(at, again);
    EDGEDEC_TRY(check_keywords(one));
    return add_types(one.value["type"], one.place, &all_.types);
  }

  Status reference(size_t at, bool* again, bool* none) {
    SchemaPart& one = all_.parts[at];
    const auto name = one.value["$ref"].text();
    SchemaPart target = {name ? target_of(root_, *name) : JsonValue(), std::string(name.value_or("")).substr(0, 60)};
    if (target.value.missing())
      return refused("$ref", one.place, "leads to nothing in the schema", "references begin with #/, as in #/$defs/name");
    one.used |= SchemaPart::kRef;
    for (int by = by_[at]; by >= 0 && !*none; by = references_[static_cast<size_t>(by)].by)
      *none = references_[static_cast<size_t>(by)].target == target.value.id();  // it leads back to itself
    references_.push_back({target.value.id(), by_[at]});
    insert(at, {std::move(target)}, "$ref", static_cast<int>(references_.size()) - 1);
    *again = true;
    return {};
  }

  Status all_of(size_t at, bool* again) {
    SchemaPart& one = all_.parts[at];
    if (!one.value["allOf"].is_list()) return refused("allOf", one.place, "is no list", "hand in a list of schemas");
    std::vector<SchemaPart> parts;
    for (size_t index = 0; index < one.value["allOf"].size(); ++index) parts.push_back(one.at("allOf", index));
    one.used |= SchemaPart::kAllOf;
    insert(at, std::move(parts), "allOf", by_[at]);
    *again = true;
    return {};
  }

  void insert(size_t at, std::vector<SchemaPart> parts, std::string_view keyword, int by) {
    const size_t place = at + names_before(all_.parts[at].value, keyword);
    by_.insert(by_.begin() + static_cast<long>(place), parts.size(), by);
    all_.parts.insert(all_.parts.begin() + static_cast<long>(place), std::make_move_iterator(parts.begin()),
                      std::make_move_iterator(parts.end()));
  }

  struct Reference {
    uint32_t target;
    int by;  // the reference that brought in the part with this one; -1: none
  };

  const JsonValue root_;
  Conjunction& all_;
  std::vector<int> by_;  // of each part, the reference that brought it in
  std::vector<Reference> references_;
};

}  // namespace

SchemaPart SchemaPart::at(std::string_view name, size_t index) const {
  return {value[name].at(index), place + "/" + std::string(name) + "/" + decimal(uint64_t{index})};
}

std::vector<uint64_t> Conjunction::key() const {
  std::vector<uint64_t> found = {types};
  for (const SchemaPart& part : parts) found.push_back(part.id());
  return found;
}

Status refused(std::string_view keyword, const std::string& place, std::string_view why, std::string_view hint) {
  std::string line = "this JSON schema cannot be used: ";
  line += keyword.empty() ? "a part" : "\"" + std::string(keyword) + "\"";
  if (!place.empty()) line += " at " + quoted(place, 200);
  return {Code::kUsage, line + " " + std::string(why), std::string(hint)};
}

JsonValue target_of(JsonValue root, std::string_view reference) {
  if (reference == "#" || reference == "#/") return root;
  if (reference.substr(0, 2) != "#/") return {};
  JsonValue found = root;
  for (size_t from = 2; from <= reference.size() && !found.missing();) {
    const size_t end = std::min(reference.find('/', from), reference.size());
    const std::string step = unescaped(reference.substr(from, end - from));
    if (found.is_list()) {
      const auto is_digit = [](char one) { return one >= '0' && one <= '9'; };
      const bool number = !step.empty() && step.size() < 7 && std::all_of(step.begin(), step.end(), is_digit);
      size_t index = 0;
      for (char digit : step) index = 10 * index + static_cast<size_t>(digit - '0');
      found = number && index < found.size() ? found.at(index) : JsonValue();
    } else {
      found = found[step];
    }
    from = end + 1;
  }
  return found;
}

Status expand(JsonValue root, Conjunction* all, bool* none) {
  *none = false;
  EDGEDEC_TRY(Expansion(root, all).run(none));
  if (all->types == 0) *none = true;
  // Parts that are alike say the same once.
  std::vector<SchemaPart> kept;
  for (SchemaPart& part : all->parts) {
    const auto same = [&](const SchemaPart& other) { return other.id() == part.id(); };
    if (std::none_of(kept.begin(), kept.end(), same)) kept.push_back(std::move(part));
  }
  all->parts = std::move(kept);
  return {};
}

Status alternatives_of(const Conjunction& all, std::vector<Conjunction>* options, bool* found, bool* one) {
  *found = *one = false;
  for (size_t at = 0; at < all.parts.size(); ++at) {
    const SchemaPart& part = all.parts[at];
    if (part.used & SchemaPart::kIsValue) continue;
    for (const char* keyword : {"anyOf", "oneOf"}) {
      const bool exactly_one = keyword[0] == 'o';
      const uint8_t use = exactly_one ? SchemaPart::kOneOf : SchemaPart::kAnyOf;
      const JsonValue list = part.value[keyword];
      if (list.missing() || (part.used & use)) continue;
      if (!list.is_list() || list.size() == 0 || list.size() > kMostOptions)
        return refused(keyword, part.place, "is no list of 1 to 1000 schemas", "hand in one");
      for (size_t index = 0; index < list.size(); ++index) {
        Conjunction option = all;
        option.parts[at].used |= use;
        const long place = static_cast<long>(at) + names_before(part.value, keyword);
        option.parts.insert(option.parts.begin() + place, part.at(keyword, index));
        options->push_back(std::move(option));
      }
      *found = true;
      *one = exactly_one;
      return {};
    }
  }
  return {};
}

}  // namespace edgedec::engine
