// SPDX-License-Identifier: Apache-2.0
// Fuzz target: ranges. A reference marks each byte that the ranges name.
#include <tests/fuzz/fuzz.hpp>

#include <gyre/http/range.hpp>

#include <array>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using gyre::fuzz::require;
  using gyre::http::byte_ranges;
  using gyre::http::range_outcome;
  gyre::fuzz::decisions decide(data, size);
  const std::size_t bytes = decide.below(40);
  if (decide.flip()) {  // any text
    const auto any = byte_ranges::parse("bytes=" + std::string(decide.rest()), bytes);
    for (const auto& each : any) require(each.size > 0 && each.last() < bytes);
    return 0;
  }
  std::vector<bool> wanted(bytes);
  std::string header = "bytes=";
  std::size_t count = 1 + decide.below(byte_ranges::max_count + 1);
  const bool too_many = count > byte_ranges::max_count;
  for (std::size_t left = count; left > 0; --left) {
    const std::size_t first = decide.below(50), last = first + decide.below(20);
    const std::size_t kind = decide.below(3);
    for (std::size_t at = 0; at < bytes; ++at) {
      const bool is_in = kind == 0   ? at >= first && at <= last
                         : kind == 1 ? at >= first
                                     : bytes - at <= first;
      if (is_in) wanted[at] = true;
    }
    if (kind != 2) header += std::to_string(first);
    header += '-';
    if (kind != 1) header += std::to_string(kind == 0 ? last : first);
    header += left == 1 ? "" : ",";
  }
  const auto ranges = byte_ranges::parse(header, bytes);
  if (too_many || bytes == 0) {
    require(ranges.outcome() == range_outcome::whole);
    return 0;
  }
  std::vector<int> seen(bytes + 1);
  for (const auto& each : ranges) {
    for (std::size_t at = each.first; at <= each.last(); ++at) ++seen.at(at);
    require(each.last() + 1 == bytes || seen[each.last() + 1] == 0);
  }
  bool some = false;
  for (std::size_t at = 0; at < bytes; ++at) {
    require(seen[at] == (wanted[at] ? 1 : 0));
    some = some || wanted[at];
  }
  require(ranges.outcome() == (some ? range_outcome::partial : range_outcome::not_satisfiable));
  return 0;
}
