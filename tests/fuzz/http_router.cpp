// SPDX-License-Identifier: Apache-2.0
// Fuzz target: the router against a reference that compares the path with each pattern.
#include <tests/fuzz/fuzz.hpp>

#include <gyre/http/percent_encoding.hpp>
#include <gyre/http/router.hpp>

#include <array>
#include <cstddef>
#include <cstdint>
#include <stdexcept>
#include <string>
#include <string_view>
#include <vector>

namespace {

using gyre::fuzz::decisions;
using gyre::fuzz::require;
using gyre::http::method;

struct route {
  std::string pattern;
  std::string handler;
  bool is_for_any;
};

std::vector<std::string> split(std::string_view path) {
  std::vector<std::string> segments;
  path.remove_prefix(1);
  for (std::size_t end = path.find('/'); end != path.npos; end = path.find('/')) {
    segments.emplace_back(path.substr(0, end));
    path.remove_prefix(end + 1);
  }
  segments.emplace_back(path);
  return segments;
}

bool may_match(const std::string& segment) {
  const auto decoded = gyre::http::percent_decode(segment);
  return decoded && *decoded != "." && *decoded != "..";
}

// A rank for each segment of the pattern, "0" for a literal; "-" if the path does not match.
std::string rank(std::string_view pattern, std::string_view path) {
  const auto wanted = split(pattern), there = split(path);
  std::string ranks;
  for (std::size_t i = 0; i < wanted.size(); ++i) {
    if (wanted[i].ends_with("...}")) {
      if (i >= there.size()) return "-";
      for (std::size_t at = i; at < there.size(); ++at) {
        if (!may_match(there[at])) return "-";
      }
      return ranks + '2';
    }
    if (i >= there.size() || !may_match(there[i])) return "-";
    const bool is_parameter = wanted[i].starts_with('{');
    if (is_parameter ? there[i].empty() : gyre::http::percent_decode(there[i]) != wanted[i]) {
      return "-";
    }
    ranks += is_parameter ? '1' : '0';
  }
  return wanted.size() == there.size() ? ranks : "-";
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  static constexpr std::array<std::string_view, 8> in_patterns{"/a",   "/b",  "/",       "/{x}",
                                                               "/{y}", "/ab", "/{r...}", "/a"};
  static constexpr std::array<std::string_view, 10> in_paths{"/a",  "/b",     "/",   "/ab", "/%61",
                                                             "/..", "/a%2Fb", "/%4", "/c",  "/%2E"};
  decisions decide(data, size);
  gyre::http::basic_router<std::string> routes;
  std::vector<route> patterns;
  for (std::size_t count = decide.below(12); count > 0; --count) {
    std::string pattern;
    for (std::size_t parts = 1 + decide.below(4); parts > 0; --parts) {
      pattern += in_patterns[decide.below(in_patterns.size())];
    }
    const bool is_for_any = decide.flip();
    try {
      const std::string handler = is_for_any ? "any " + pattern : pattern;
      if (is_for_any) {
        routes.add(pattern, handler);
      } else {
        routes.add(method::get, pattern, handler);
      }
      patterns.push_back({pattern, handler, is_for_any});
    } catch (const std::invalid_argument&) {
    }
  }
  while (!decide.empty()) {
    std::string path;
    for (std::size_t parts = 1 + decide.below(5); parts > 0; --parts) {
      path += in_paths[decide.below(in_paths.size())];
    }
    for (const method wanted : {method::get, method::put}) {
      const route* best = nullptr;
      std::string best_rank;
      for (const route& each : patterns) {
        if (wanted != method::get && !each.is_for_any) continue;
        // A handler for the method comes before one for any method.
        const std::string matched = rank(each.pattern, path);
        const std::string here = matched + (each.is_for_any ? '1' : '0');
        if (matched != "-" && (best == nullptr || here < best_rank)) {
          best = &each;
          best_rank = here;
        }
      }
      const auto match = routes.find(wanted, path);
      require((best != nullptr) == static_cast<bool>(match));
      if (best != nullptr) require(*match.handler == best->handler);
    }
  }
  return 0;
}
