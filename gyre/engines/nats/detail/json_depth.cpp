// SPDX-License-Identifier: Apache-2.0
#include <gyre/engines/nats/detail/json_depth.hpp>

#include <cstddef>

namespace gyre::nats::detail {

bool is_nested_deeply(std::string_view json) noexcept {
  constexpr std::size_t max_depth = 32;
  std::size_t depth = 0;
  bool is_in_string = false;
  for (std::size_t index = 0; index < json.size(); ++index) {
    const char character = json[index];
    if (is_in_string) {
      if (character == '\\') ++index;
      if (character == '"') is_in_string = false;
    } else if (character == '"') {
      is_in_string = true;
    } else if (character == '[' || character == '{') {
      if (++depth > max_depth) return true;
    } else if ((character == ']' || character == '}') && depth > 0) {
      --depth;
    }
  }
  return false;
}

}  // namespace gyre::nats::detail
