// SPDX-License-Identifier: Apache-2.0
// Command-line parser of a contender: reads `--key value --key value …` into typed variables, and
// explains errors in words that a person can act on.
#pragma once

#include <lab/harness/json.hpp>

#include <cstdint>
#include <functional>
#include <initializer_list>
#include <limits>
#include <stdexcept>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace lab {

/// The command line is invalid; what() says why and what would be valid.
struct usage_error : std::runtime_error {
  using std::runtime_error::runtime_error;
};

/// The options that a program takes. Each is bound to a variable that holds the default before
/// parse() and the value from the command line after it.
/// Lifetime: the variables must outlive the object.
class arguments {
 public:
  /// An integer from `least` to `most`, such as `--tasks 1000000`.
  template <std::unsigned_integral Int>
  arguments& number(std::string name, Int& value, std::string help, std::uint64_t least = 0,
                    std::uint64_t most = std::numeric_limits<Int>::max());

  /// A decimal number that is not negative, such as `--handicap 2.5`.
  arguments& decimal(std::string name, double& value, std::string help);

  /// One of the named values, such as `--wakeup coalesced`.
  template <class Value>
  arguments& choice(std::string name, Value& value, std::string help,
                    std::initializer_list<std::pair<std::string_view, Value>> choices);

  /// Whole numbers separated by commas, such as `--pin 0,1`.
  arguments& list(std::string name, std::vector<unsigned>& values, std::string help);

  /// The options added so far are the cell's parameters, which values() repeats. Options added
  /// later only steer the program.
  arguments& end_of_parameters();

  /// Reads the words after the program's name.
  /// Errors: throws usage_error for an unknown or repeated key, a missing value, or a value that is
  /// out of range.
  void parse(int argc, const char* const* argv);

  /// One line per option: its name, the values that it takes, its default.
  std::string help() const;

  /// The parameters and their values, as the result line shows them (`-` in a name becomes `_`).
  json_object values() const;

 private:
  struct option {
    std::string name;
    std::string takes;
    std::string help;
    std::function<void(std::string_view)> read;  // throws usage_error, which lists valid values
    std::function<std::string()> show;
    std::function<void(json_object&, std::string_view)> report;
    bool is_set = false;
  };

  option& find(std::string_view key);

  std::vector<option> options_;
  std::size_t parameters_ = 0;
};

namespace detail {

std::uint64_t read_number(std::string_view text, std::uint64_t least, std::uint64_t most);
std::string range_text(std::uint64_t least, std::uint64_t most, std::uint64_t unlimited);

}  // namespace detail

template <std::unsigned_integral Int>
arguments& arguments::number(std::string name, Int& value, std::string help, std::uint64_t least,
                             std::uint64_t most) {
  options_.push_back({
      .name = std::move(name),
      .takes = detail::range_text(least, most, std::numeric_limits<Int>::max()),
      .help = std::move(help),
      .read =
          [&value, least, most](std::string_view text) {
            value = static_cast<Int>(detail::read_number(text, least, most));
          },
      .show = [&value] { return std::to_string(value); },
      .report = [&value](json_object& to, std::string_view key) { to.add(key, value); },
  });
  return *this;
}

template <class Value>
arguments& arguments::choice(std::string name, Value& value, std::string help,
                             std::initializer_list<std::pair<std::string_view, Value>> choices) {
  std::vector<std::pair<std::string_view, Value>> known(choices);
  std::string takes;
  for (const auto& [word, meaning] : known) takes.append(takes.empty() ? "" : "|").append(word);

  const auto word_of = [&value, known] {
    for (const auto& [word, meaning] : known) {
      if (meaning == value) return std::string(word);
    }
    return std::string();
  };
  options_.push_back({
      .name = std::move(name),
      .takes = takes,
      .help = std::move(help),
      .read =
          [&value, known](std::string_view text) {
            for (const auto& [word, meaning] : known) {
              if (word == text) {
                value = meaning;
                return;
              }
            }
            throw usage_error("is none of these");
          },
      .show = word_of,
      .report = [word_of](json_object& to, std::string_view key) { to.add(key, word_of()); },
  });
  return *this;
}

}  // namespace lab
