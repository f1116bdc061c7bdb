// SPDX-License-Identifier: Apache-2.0
// route_tree: the patterns of a basic_router as a tree of segments, with indices of handlers.
#pragma once

#include <gyre/http/method.hpp>
#include <gyre/http/route_parameters.hpp>

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace gyre::http::detail {

class route_tree {
 public:
  static constexpr std::uint32_t none = 0xffff'ffff;

  struct result {
    std::uint32_t handler = none;
    method_set allowed = {};  // the methods of the path, if `handler` is none
  };

  // method_set::all() stands for the methods without a handler of their own at the pattern.
  void add(method_set methods, std::string_view pattern, std::uint32_t handler);
  result find(method request_method, std::string_view path,
              route_parameters& parameters) const noexcept;

 private:
  static constexpr std::size_t method_count = static_cast<std::size_t>(method::other) + 1;

  // The handlers, by method, of the patterns that end at a node.
  struct handler_table {
    std::array<std::uint32_t, method_count> handlers = no_handlers();
    std::uint32_t any_method = none;  // serves the methods without a handler of their own
    method_set methods = {};          // the methods with a handler of their own

    static constexpr std::array<std::uint32_t, method_count> no_handlers() {
      std::array<std::uint32_t, method_count> all{};
      all.fill(none);
      return all;
    }
  };
  struct node {
    // Literals and node indices, sorted by the literal.
    std::vector<std::pair<std::string, std::uint32_t>> literals = {};
    std::string parameter = {};  // the name of the parameter {name}
    std::string rest = {};       // the name of the parameter {name...}
    std::uint32_t parameter_node = none;
    std::uint32_t own_table = none;
    std::uint32_t rest_table = none;
  };
  struct segment;
  struct search;

  static std::vector<segment> split(std::string_view pattern);
  void check(method_set methods, std::string_view pattern, std::span<const segment> segments) const;
  void insert(method_set methods, std::span<const segment> segments, std::uint32_t handler);
  const std::pair<std::string, std::uint32_t>* find_literal(
      const node& parent, std::string_view segment) const noexcept;
  std::uint32_t literal_node(std::uint32_t parent, const std::string& text);
  void visit(search& state, const node& parent, std::string_view path) const noexcept;
  void match_table(search& state, std::uint32_t table) const noexcept;

  std::vector<node> nodes_ = std::vector<node>(1);
  std::vector<handler_table> tables_;
};

}  // namespace gyre::http::detail
