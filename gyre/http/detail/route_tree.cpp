// SPDX-License-Identifier: Apache-2.0
#include <gyre/http/detail/route_tree.hpp>

#include <gyre/http/detail/characters.hpp>
#include <gyre/http/percent_encoding.hpp>

#include <algorithm>
#include <stdexcept>

namespace gyre::http::detail {

enum class segment_kind : std::uint8_t { literal, parameter, rest };

struct route_tree::segment {
  segment_kind kind;
  std::string text;  // the decoded literal, or the parameter's name
};

struct route_tree::search {
  method request_method;
  route_parameters& parameters;
  result match = {};
};

namespace {

constexpr std::size_t max_segments = 64;

[[noreturn]] void refuse(std::string_view pattern, std::string_view reason) {
  throw std::invalid_argument("gyre::http::basic_router: '" + std::string(pattern) + "' " +
                              std::string(reason));
}

bool is_dots(std::string_view segment) noexcept {
  return decodes_to(segment, ".") || decodes_to(segment, "..");
}

// Splits the first segment off a path without its leading '/'.
struct split_path {
  explicit split_path(std::string_view path) noexcept
      : first(path.substr(0, path.find('/'))), is_last(first.size() == path.size()) {
    if (!is_last) rest = path.substr(first.size() + 1);
  }
  std::string_view first;
  std::string_view rest;
  bool is_last;
};

bool may_match(std::string_view segment) noexcept {
  return is_percent_encoded(segment) && !is_dots(segment);
}

bool all_may_match(std::string_view path) noexcept {
  for (;;) {
    const split_path parts(path);
    if (!may_match(parts.first)) return false;
    if (parts.is_last) return true;
    path = parts.rest;
  }
}

}  // namespace

std::vector<route_tree::segment> route_tree::split(std::string_view pattern) {
  if (!pattern.starts_with('/')) refuse(pattern, "does not begin with '/'");
  std::vector<segment> segments;
  std::vector<std::string_view> names;
  std::string_view path = pattern.substr(1);
  for (bool has_more = true; has_more;) {
    const split_path parts(path);
    std::string_view text = parts.first;
    has_more = !parts.is_last;
    path = parts.rest;
    if (segments.size() == max_segments) refuse(pattern, "has more than 64 segments");
    if (text.find_first_of("{}") == text.npos) {
      const auto literal_text = percent_decode(text);
      if (!literal_text) refuse(pattern, "has a '%' without two hexadecimal digits");
      if (is_dots(text)) refuse(pattern, "has a segment of dots, which no request matches");
      segments.push_back({segment_kind::literal, *literal_text});
      continue;
    }
    if (text.size() < 2 || text.front() != '{' || text.back() != '}') {
      refuse(pattern, "has a segment that is neither a text nor {name} nor {name...}");
    }
    text = text.substr(1, text.size() - 2);
    const bool is_rest = text.ends_with("...");
    if (is_rest) text.remove_suffix(3);
    if (text.empty()) refuse(pattern, "has a parameter without a name");
    if (!is_token(text) || text.find_first_of("{}.") != text.npos) {
      refuse(pattern, "has a parameter whose name is not a word");
    }
    if (is_rest && has_more) refuse(pattern, "has a {name...} that is not at its end");
    if (std::ranges::count(names, text) != 0) refuse(pattern, "has the same name twice");
    if (names.size() == route_parameters::max_count) refuse(pattern, "has too many parameters");
    names.push_back(text);
    segments.push_back({is_rest ? segment_kind::rest : segment_kind::parameter, std::string(text)});
  }
  return segments;
}

// Finds a literal. An encoded segment is decoded while it is compared, so that it needs a linear
// search.
const std::pair<std::string, std::uint32_t>* route_tree::find_literal(
    const node& parent, std::string_view segment) const noexcept {
  if (segment.contains('%')) {
    const auto match = std::ranges::find_if(
        parent.literals, [&](const auto& literal) { return decodes_to(segment, literal.first); });
    return match == parent.literals.end() ? nullptr : &*match;
  }
  // Up to this number a linear search is enough, because most literals differ in size.
  constexpr std::size_t max_linear_literals = 8;
  const auto text_of = [](const auto& literal) { return std::string_view(literal.first); };
  if (parent.literals.size() <= max_linear_literals) {
    const auto match = std::ranges::find(parent.literals, segment, text_of);
    return match == parent.literals.end() ? nullptr : &*match;
  }
  const auto match = std::ranges::lower_bound(parent.literals, segment, {}, text_of);
  return match == parent.literals.end() || match->first != segment ? nullptr : &*match;
}

void route_tree::check(method_set methods, std::string_view pattern,
                       std::span<const segment> segments) const {
  const auto check_name = [&](const std::string& name, const std::string& other_name) {
    if (other_name.empty() || other_name == name) return;
    refuse(pattern,
           "names a parameter '" + name + "' that an earlier pattern names '" + other_name + '\'');
  };
  const node* parent = nodes_.data();
  std::uint32_t table = none;
  for (const segment& part : segments) {
    std::uint32_t child = none;
    if (part.kind == segment_kind::rest) {
      check_name(part.text, parent->rest);
      table = parent->rest_table;
      break;
    }
    if (part.kind == segment_kind::parameter) {
      check_name(part.text, parent->parameter);
      child = parent->parameter_node;
    } else {
      const auto match = std::ranges::find(parent->literals, part.text, [](const auto& literal) {
        return std::string_view(literal.first);
      });
      if (match != parent->literals.end()) child = match->second;
    }
    if (child == none) return;
    parent = &nodes_[child];
    table = parent->own_table;
  }
  if (table == none) return;
  if (methods == method_set::all()) {
    if (tables_[table].any_method != none) refuse(pattern, "is there already for any method");
    return;
  }
  for (std::size_t i = 0; i != method_count; ++i) {
    const auto verb = static_cast<method>(i);
    if (!methods.contains(verb) || !tables_[table].methods.contains(verb)) continue;
    const std::string_view name = to_text(verb);
    refuse(pattern, "is there already for " + std::string(name.empty() ? "other methods" : name));
  }
}

std::uint32_t route_tree::literal_node(std::uint32_t parent, const std::string& text) {
  auto& literals = nodes_[parent].literals;
  const auto position =
      std::ranges::lower_bound(literals, std::string_view(text), {},
                               [](const auto& literal) { return std::string_view(literal.first); });
  if (position != literals.end() && position->first == text) return position->second;
  const auto index = static_cast<std::uint32_t>(nodes_.size());
  literals.emplace(position, text, index);
  nodes_.emplace_back();
  return index;
}

void route_tree::insert(method_set methods, std::span<const segment> segments,
                        std::uint32_t handler) {
  std::uint32_t parent = 0;
  bool ends_in_rest = false;
  for (const segment& part : segments) {
    if (part.kind == segment_kind::rest) {
      nodes_[parent].rest = part.text;
      ends_in_rest = true;
    } else if (part.kind == segment_kind::literal) {
      parent = literal_node(parent, part.text);
    } else {
      if (nodes_[parent].parameter_node == none) {
        nodes_[parent].parameter = part.text;
        nodes_[parent].parameter_node = static_cast<std::uint32_t>(nodes_.size());
        nodes_.emplace_back();
      }
      parent = nodes_[parent].parameter_node;
    }
  }
  std::uint32_t& table = ends_in_rest ? nodes_[parent].rest_table : nodes_[parent].own_table;
  if (table == none) {
    tables_.emplace_back();
    table = static_cast<std::uint32_t>(tables_.size() - 1);
  }
  if (methods == method_set::all()) {
    tables_[table].any_method = handler;
    return;
  }
  tables_[table].methods.add(methods);
  for (std::size_t i = 0; i != method_count; ++i) {
    if (methods.contains(static_cast<method>(i))) tables_[table].handlers[i] = handler;
  }
}

// The tree is changed as a copy, so that an exception leaves it unchanged.
void route_tree::add(method_set methods, std::string_view pattern, std::uint32_t handler) {
  const std::vector<segment> segments = split(pattern);
  check(methods, pattern, segments);
  route_tree copy = *this;
  copy.insert(methods, segments, handler);
  *this = std::move(copy);
}

route_tree::result route_tree::find(method request_method, std::string_view path,
                                    route_parameters& parameters) const noexcept {
  if (!path.starts_with('/')) return {};
  search state{.request_method = request_method, .parameters = parameters};
  visit(state, nodes_.front(), path.substr(1));
  return state.match;
}

// Visits each node at most once, because only one path of the tree leads to it. The recursion is as
// deep as the patterns.
void route_tree::visit(search& state, const node& parent, std::string_view path) const noexcept {
  const split_path parts(path);
  const auto descend = [&](std::uint32_t child) {
    if (parts.is_last) {
      match_table(state, nodes_[child].own_table);
    } else {
      visit(state, nodes_[child], parts.rest);
    }
  };
  if (const auto* const literal = find_literal(parent, parts.first)) descend(literal->second);
  if (state.match.handler != none) return;
  if (parent.parameter_node != none && !parts.first.empty() && may_match(parts.first)) {
    state.parameters.push({.name = parent.parameter, .raw = parts.first});
    descend(parent.parameter_node);
    if (state.match.handler != none) return;
    state.parameters.pop();
  }
  if (parent.rest_table != none && all_may_match(path)) {
    state.parameters.push({.name = parent.rest, .raw = path});
    match_table(state, parent.rest_table);
    if (state.match.handler == none) state.parameters.pop();
  }
}

void route_tree::match_table(search& state, std::uint32_t table) const noexcept {
  if (table == none) return;
  const handler_table& all = tables_[table];
  const auto handler_of = [&](method key) { return all.handlers[static_cast<std::size_t>(key)]; };
  state.match.handler = handler_of(state.request_method);
  if (state.match.handler == none && state.request_method == method::head) {
    state.match.handler = handler_of(method::get);
  }
  if (state.match.handler == none) state.match.handler = all.any_method;
  if (state.match.handler != none) return;
  state.match.allowed.add(all.methods);
  state.match.allowed.add(method::options);
  if (all.methods.contains(method::get)) state.match.allowed.add(method::head);
}

}  // namespace gyre::http::detail
