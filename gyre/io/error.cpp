// SPDX-License-Identifier: Apache-2.0
#include <gyre/io/error.hpp>

#include <string>

namespace gyre::io {
namespace {

class category final : public std::error_category {
 public:
  const char* name() const noexcept override { return "gyre.io"; }
  std::string message(int error) const override {
    switch (static_cast<errc>(error)) {
      case errc::unexpected_end: return "the stream ended before all requested bytes had come";
      case errc::limit_exceeded: return "the delimiter or frame is not within the limit";
      case errc::idle_timeout: return "the connection was idle for longer than its idle timeout";
    }
    return "unknown error";
  }
  std::error_condition default_error_condition(int error) const noexcept override {
    if (error == static_cast<int>(errc::idle_timeout)) {
      return std::make_error_condition(std::errc::timed_out);
    }
    return {error, *this};
  }
};

}  // namespace

const std::error_category& error_category() noexcept {
  static const category only;
  return only;
}

}  // namespace gyre::io
