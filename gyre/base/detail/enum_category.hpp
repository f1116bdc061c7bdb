// SPDX-License-Identifier: Apache-2.0
// enum_category: the std::error_category of an enumeration, made of two functions.
#pragma once

#include <string>
#include <system_error>

namespace gyre::detail {

/// The category of an enumeration `Enum` of error codes.
///
/// Thread-safety: a constant.
template <class Enum>
class enum_category final : public std::error_category {
 public:
  /// Returns the message of a code. Has to accept any number, because an error_code may hold one.
  using message_function = const char* (*)(Enum code) noexcept;
  /// Returns the std::errc that equals a code; std::errc(): there is none.
  using condition_function = std::errc (*)(Enum code) noexcept;

  enum_category(const char* name, message_function messages, condition_function conditions) noexcept
      : name_(name), message_of_(messages), condition_of_(conditions) {}

  const char* name() const noexcept override { return name_; }
  std::string message(int code) const override { return message_of_(static_cast<Enum>(code)); }
  std::error_condition default_error_condition(int code) const noexcept override {
    const std::errc condition = condition_of_(static_cast<Enum>(code));
    if (condition == std::errc()) return {code, *this};
    return std::make_error_condition(condition);
  }

 private:
  const char* name_;
  message_function message_of_;
  condition_function condition_of_;
};

}  // namespace gyre::detail
