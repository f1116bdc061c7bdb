// SPDX-License-Identifier: Apache-2.0
#include <gyre/task/time_limit_error.hpp>

#include <string>

namespace gyre {
namespace {

class category final : public std::error_category {
 public:
  const char* name() const noexcept override { return "gyre.time_limit"; }
  std::string message(int error) const override {
    return error == static_cast<int>(time_limit_errc::expired) ? "the time limit expired"
                                                               : "unknown error";
  }
  std::error_condition default_error_condition(int error) const noexcept override {
    if (error != static_cast<int>(time_limit_errc::expired)) return {error, *this};
    return std::make_error_condition(std::errc::timed_out);
  }
};

}  // namespace

const std::error_category& time_limit_category() noexcept {
  static const category only;
  return only;
}

}  // namespace gyre
