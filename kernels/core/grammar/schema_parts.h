// The schemas that a value has to keep to all at once, and the ways to take them apart.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "core/base/json.h"
#include "core/base/status.h"

namespace edgedec::engine {

// Types of JSON as bits. A number is an integer or has a fraction.
enum JsonType : uint8_t {
  kTypeNull = 1,
  kTypeFlag = 2,
  kTypeInteger = 4,
  kTypeFraction = 8,
  kTypeText = 16,
  kTypeList = 32,
  kTypeObject = 64,
  kTypeNumber = kTypeInteger | kTypeFraction,
  kAllTypes = 127,
};

// A schema of the document, or a value that is the only one.
struct SchemaPart {
  enum Use : uint8_t { kRef = 1, kAllOf = 2, kAnyOf = 4, kOneOf = 8, kIsValue = 16 };

  JsonValue value;
  std::string place = {};  // where it stands, for messages
  uint8_t used = 0;        // keywords that others of the conjunction stand for already

  uint64_t id() const { return uint64_t{used} << 32 | value.id(); }
  // The part at `name` below it.
  SchemaPart at(std::string_view name) const { return {value[name], place + "/" + std::string(name)}; }
  SchemaPart at(std::string_view name, size_t index) const;
};

// Schemas that a value keeps to, in the order in which they name keys, and the types that it may have.
struct Conjunction {
  std::vector<SchemaPart> parts;
  uint8_t types = kAllTypes;

  std::vector<uint64_t> key() const;
};

// "this JSON schema cannot be used: `what` at `place` `why`".
Status refused(std::string_view keyword, const std::string& place, std::string_view why, std::string_view hint);

// The part that the $ref of `part` names in `root`; missing where it names none.
JsonValue target_of(JsonValue root, std::string_view reference);

// Puts what references and allOf name in place of them, and drops what says nothing. `*none`: no value keeps to it.
// kUsage: a part is no schema, or has a keyword that cannot be kept to.
Status expand(JsonValue root, Conjunction* all, bool* none);

// The alternatives of the first anyOf or oneOf; `*found` tells whether there is one, `*one` whether it was oneOf.
Status alternatives_of(const Conjunction& all, std::vector<Conjunction>* options, bool* found, bool* one);

}  // namespace edgedec::engine
