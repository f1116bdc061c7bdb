// SPDX-License-Identifier: Apache-2.0
#include <gyre/http/detail/request_clock.hpp>

namespace gyre::http::detail {

std::exception_ptr request_clock::add_name(std::exception_ptr error,
                                           const char* limited_phase) const {
  if (error == gyre::detail::cancellation()) return error;
  try {
    std::rethrow_exception(error);
  } catch (const std::system_error& failure) {
    std::error_code code = failure.code();
    std::string_view text = failure.what();
    if (limited_phase != nullptr && code == time_limit_errc::expired) {
      code = errc::timed_out;
      text = limited_phase;
    } else if (request_.empty() || text.starts_with("http::client: ")) {
      return error;
    }
    const std::string message = ": " + failure.code().message();
    if (text.ends_with(message)) text.remove_suffix(message.size());
    return std::make_exception_ptr(std::system_error(code, describe(text)));
  } catch (...) {
    return error;
  }
}

}  // namespace gyre::http::detail
