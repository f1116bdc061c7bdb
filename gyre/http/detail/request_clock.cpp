// SPDX-License-Identifier: Apache-2.0
#include <gyre/http/detail/request_clock.hpp>

namespace gyre::http::detail {

std::exception_ptr request_clock::named(const std::exception_ptr& error) const try {
  std::rethrow_exception(error);
} catch (const std::system_error& failure) {
  std::string_view text = failure.what();
  if (text.starts_with("http::client")) return error;
  const std::string message = ": " + failure.code().message();
  if (text.ends_with(message)) text.remove_suffix(message.size());
  return std::make_exception_ptr(std::system_error(failure.code(), describe(text)));
} catch (...) {
  return error;
}

}  // namespace gyre::http::detail
