// SPDX-License-Identifier: Apache-2.0
// Command-line parser of a contender: reads `--key value --key value …` into typed variables, and
// explains errors in words that a person can act on.
#pragma once

#include <lab/harness/json.hpp>

#include <concepts>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <initializer_list>
#include <limits>
#include <memory>
#include <stdexcept>
#include <string>
#include <string_view>
#include <type_traits>
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
  arguments& number(std::string_view name, Int& value, std::string_view help,
                    std::uint64_t least = 0, std::uint64_t most = std::numeric_limits<Int>::max()) {
    return add_number(name, {&value, sizeof value}, help, least, most);
  }

  /// A decimal number that is not negative, such as `--handicap 2.5`.
  arguments& decimal(std::string_view name, double& value, std::string_view help);

  /// One of the named values, such as `--wakeup coalesced`.
  template <class Value>
    requires std::is_enum_v<Value>
  arguments& choice(std::string_view name, Value& value, std::string_view help,
                    std::initializer_list<std::pair<std::string_view, Value>> choices) {
    add_choice(name, {&value, sizeof value}, help);
    for (const auto& [word, meaning] : choices) add_word(word, static_cast<std::uint64_t>(meaning));
    return *this;
  }

  /// Whole numbers separated by commas, such as `--pin 0,1`.
  arguments& list(std::string_view name, std::vector<unsigned>& values, std::string_view help);

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
  using words = std::vector<std::pair<std::string, std::uint64_t>>;

  /// A variable of an unsigned type or an enumeration. Its type is left behind here, as templates
  /// would be compiled anew in every contender.
  struct variable {
    void* address;
    std::size_t bytes;

    std::uint64_t load() const;
    void store(std::uint64_t value) const;
  };

  struct option {
    std::string name;
    std::string takes;
    std::string help;
    std::function<void(std::string_view)> read;  // throws usage_error, which lists valid values
    std::function<std::string()> show;
    std::function<void(json_object&, std::string_view)> report;
    std::shared_ptr<words> choices = nullptr;  // of a choice
    bool is_set = false;
  };

  arguments& add_number(std::string_view name, variable value, std::string_view help,
                        std::uint64_t least, std::uint64_t most);
  void add_choice(std::string_view name, variable value, std::string_view help);
  void add_word(std::string_view word, std::uint64_t meaning);  // to the last choice
  option& find(std::string_view key);

  std::vector<option> options_;
  std::size_t parameters_ = 0;
};

}  // namespace lab
