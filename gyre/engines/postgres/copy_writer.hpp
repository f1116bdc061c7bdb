// SPDX-License-Identifier: Apache-2.0
// copy_writer: the bytes of a COPY … FROM STDIN, as they are made.
//
//     gyre::postgres::copy_writer copy = co_await db.copy_in("copy item from stdin (format csv)");
//     co_await copy.write("1,bolt\n");
//     co_await copy.write("2,nut\n");
//     std::uint64_t rows = co_await copy.finish();
#pragma once

#include <gyre/task/task.hpp>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string_view>
#include <utility>

namespace gyre::postgres {

namespace detail {
class copy_request;
}

/// A COPY into a table. Rows become visible with finish(), or with the transaction that it is a
/// part of; a writer that is destroyed before that gives the COPY up, and its transaction with it.
///
/// Thread-safety: the loop's thread; one coroutine.
/// Lifetime: may outlive the client, whose close() ends it.
/// Errors: of write() and finish(): server_error, as soon as the server has sent one; those of
/// querier. After an error each further call fails with it.
class copy_writer {
 public:
  copy_writer(copy_writer&&) noexcept = default;
  copy_writer& operator=(copy_writer&&) noexcept = default;
  ~copy_writer() = default;

  /// Sends bytes, and waits while too many wait to be sent. They need not end with a row.
  [[nodiscard]] task<> write(std::span<const std::byte> bytes);
  [[nodiscard]] task<> write(std::string_view text) {
    return write(std::as_bytes(std::span(text)));
  }
  /// Ends the COPY, and returns the number of rows that were copied.
  [[nodiscard]] task<std::uint64_t> finish();

 private:
  friend detail::copy_request;
  explicit copy_writer(std::shared_ptr<detail::copy_request> request) noexcept
      : request_(std::move(request)) {}

  std::shared_ptr<detail::copy_request> request_;
};

}  // namespace gyre::postgres
