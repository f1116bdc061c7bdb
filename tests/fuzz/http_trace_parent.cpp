// SPDX-License-Identifier: Apache-2.0
// Fuzz target: the field traceparent. Changes a valid value, and compares the parser with a slow
// reading of the grammar.
#include <tests/fuzz/fuzz.hpp>

#include <gyre/http/trace_parent.hpp>

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace {

bool is_hex(std::string_view text, std::size_t size) {
  if (text.size() != size) return false;
  for (const char each : text) {
    if (!((each >= '0' && each <= '9') || (each >= 'a' && each <= 'f'))) return false;
  }
  return true;
}

bool is_valid(std::string_view text) {
  std::vector<std::string_view> parts;
  std::string_view rest = text;
  for (;;) {
    const std::size_t dash = rest.find('-');
    parts.push_back(rest.substr(0, dash));
    if (dash == rest.npos) break;
    rest.remove_prefix(dash + 1);
  }
  if (parts.size() < 4) return false;
  return is_hex(parts[0], 2) && parts[0] != "ff" && is_hex(parts[1], 32) &&
         parts[1] != std::string(32, '0') && is_hex(parts[2], 16) &&
         parts[2] != std::string(16, '0') && is_hex(parts[3], 2) &&
         (parts[0] != "00" || parts.size() == 4);
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using gyre::fuzz::require;
  using gyre::http::trace_parent;
  gyre::fuzz::decisions decide(data, size);
  std::string text = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01";
  if (decide.below(8) == 0) {
    text = decide.rest();
  } else {
    for (std::size_t changes = decide.below(4); changes > 0; --changes) {
      const std::size_t position = decide.below(text.size());
      switch (decide.below(5)) {
        case 0: text[position] = static_cast<char>(decide.byte()); break;
        case 1: text[position] = "0123456789abcdefAF-"[decide.below(19)]; break;
        case 2: text.erase(position, 1 + decide.below(3)); break;
        case 3: text.insert(position, decide.text(decide.below(4))); break;
        default: text.replace(3, decide.flip() ? 32 : 49, decide.flip() ? 32 : 16, '0'); break;
      }
      if (text.empty()) break;
    }
    if (decide.flip()) text += decide.rest();
  }
  const std::optional<trace_parent> parsed = trace_parent::parse(text);
  require(parsed.has_value() == is_valid(text));
  if (!parsed) return 0;
  require(parsed->trace_id() == std::string_view(text).substr(3, 32));
  require(parsed->parent_id() == std::string_view(text).substr(36, 16));
  const std::string written = parsed->to_string();
  require(written.starts_with("00-") && is_valid(written));
  require(trace_parent::parse(written) == parsed);
  return 0;
}
