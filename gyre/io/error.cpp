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
      case errc::unexpected_end: return "the stream ended before all that was asked for had come";
      case errc::limit_exceeded: return "what was looked for is not within the limit";
    }
    return "unknown error";
  }
};

}  // namespace

const std::error_category& error_category() noexcept {
  static const category only;
  return only;
}

}  // namespace gyre::io
