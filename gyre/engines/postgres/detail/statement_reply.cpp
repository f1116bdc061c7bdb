// SPDX-License-Identifier: Apache-2.0
#include <gyre/engines/postgres/detail/statement_reply.hpp>

#include <gyre/engines/postgres/error.hpp>

#include <charconv>
#include <string>
#include <system_error>
#include <utility>

namespace gyre::postgres::detail {

std::uint64_t affected_rows(std::string_view tag) noexcept {
  const std::size_t blank = tag.rfind(' ');
  if (blank == std::string_view::npos) return 0;
  tag.remove_prefix(blank + 1);
  std::uint64_t count = 0;
  const char* const end = tag.data() + tag.size();
  const auto result = std::from_chars(tag.data(), end, count);
  return result.ec == std::errc{} && result.ptr == end ? count : 0;
}

void statement_reply::on_row(const row_view& row) noexcept {
  if (rows_ == nullptr || error_ != nullptr) return;
  bytes_ += row.bytes();
  try {
    if (bytes_ > max_bytes_) {
      throw_error(errc::result_too_large, "more than " + std::to_string(max_bytes_) + " bytes");
    }
    rows_->add(row);
  } catch (...) {
    fail(std::current_exception());
  }
}

void statement_reply::on_complete(std::string_view tag) noexcept {
  affected_rows_ = affected_rows(tag);
  is_rollback_ = tag == "ROLLBACK";
  is_suspended_ = false;
}

void statement_reply::on_error(server_message error) noexcept {
  if (!failure_) failure_ = std::move(error);
}

void statement_reply::on_lost(const std::exception_ptr& error, bool was_sent) noexcept {
  error_ = error;
  end(was_sent ? outcome::lost : outcome::unsent);
}

void statement_reply::fail(std::exception_ptr error) noexcept {
  error_ = std::move(error);
  core_.cancel(*this);
}

void statement_reply::throw_if_failed(std::string_view text, bool has_limit) const {
  // An error of a row has precedence: the server's error is then only about the cancelled rest.
  if (error_ != nullptr) std::rethrow_exception(error_);
  if (!failure_) return;
  const errc code = errc_of(failure_->sqlstate);
  const bool is_timeout = has_limit && code == errc::query_canceled;
  throw server_error(is_timeout ? errc::statement_timeout : code, *failure_, text);
}

}  // namespace gyre::postgres::detail
