// SPDX-License-Identifier: Apache-2.0
// The operations of a stream, as Operations of request_awaiter.
#pragma once

#include <gyre/io/backend.hpp>
#include <gyre/io/buffer.hpp>
#include <gyre/io/detail/request_awaiter.hpp>
#include <gyre/io/error.hpp>
#include <gyre/io/received.hpp>
#include <gyre/io/request.hpp>

#include <sys/types.h>
#include <sys/uio.h>

#include <cstddef>
#include <span>
#include <string_view>

namespace gyre::io::detail {

/// A request whose value is the number of bytes that it moved.
template <class Request>
struct counting_request : single_request<Request> {
  using value_type = std::size_t;
  using single_request<Request>::single_request;
  static std::size_t value(io::result outcome) noexcept { return outcome.count(); }
};

struct read_operation : counting_request<read_request> {
  static constexpr const char* name = "gyre::io::stream: read";

  read_operation(open_descriptor* descriptor, std::span<std::byte> bytes,
                 bool transfers_all) noexcept
      : counting_request(descriptor, bytes, nullptr, transfers_all) {}

  std::optional<io::result> begin() noexcept {
    if (rest.empty()) return io::result::of(0);
    return single_request::begin();
  }
  std::error_code check(io::result) const noexcept {
    if (whole() && !rest.empty()) return errc::unexpected_end;
    return {};
  }
};

struct receive_operation : single_request<transient_receive_request> {
  using value_type = received;
  static constexpr const char* name = "gyre::io::stream: receive";
  static constexpr bool brings_bytes = true;

  explicit receive_operation(open_descriptor* descriptor) noexcept
      : single_request(descriptor, nullptr) {}

  static received value(received bytes) noexcept { return bytes; }
};

/// Receives, and appends to a buffer, until the buffer contains a delimiter. In an operation with
/// advance(), begin() also begins each further request.
struct read_until_operation : counting_request<receive_request> {
  static constexpr const char* name = "gyre::io::stream: read_until";

  read_until_operation(open_descriptor* descriptor, buffer& memory, std::string_view delimiter,
                       std::size_t limit) noexcept
      : counting_request(descriptor, nullptr),
        buffer_(&memory),
        delimiter_(delimiter),
        limit_(limit) {}
  read_until_operation(const read_until_operation& other) noexcept
      : read_until_operation(other.descriptor(), *other.buffer_, other.delimiter_, other.limit_) {}

  std::optional<io::result> begin() noexcept;
  std::optional<io::result> advance(io::result outcome) noexcept;
  std::error_code check(io::result) const noexcept { return failure_; }

 private:
  /// Searches the received bytes. Returns the outcome if the search has ended.
  std::optional<io::result> search() noexcept;
  std::optional<io::result> take(io::result outcome) noexcept;

  buffer* buffer_;
  std::string_view delimiter_;
  std::size_t limit_;
  std::size_t searched_bytes_ = 0;
  std::error_code failure_;
};

struct write_operation : counting_request<write_request> {
  static constexpr const char* name = "gyre::io::stream: write";

  write_operation(open_descriptor* descriptor, std::span<const std::byte> bytes,
                  bool transfers_all) noexcept
      : counting_request(descriptor, bytes, nullptr, transfers_all) {}

  std::optional<io::result> begin() noexcept {
    if (rest.empty()) return io::result::of(0);
    return single_request::begin();
  }
};

struct gather_operation : counting_request<gather_request> {
  static constexpr const char* name = "gyre::io::stream: write";

  gather_operation(open_descriptor* descriptor, std::span<const iovec> memory,
                   bool transfers_all) noexcept
      : counting_request(descriptor, memory.first(0), nullptr),
        rest_(memory),
        transfers_all_(transfers_all) {}

  std::optional<io::result> begin() noexcept;
  std::optional<io::result> advance(io::result outcome) noexcept;

 private:
  /// Counts written bytes. Returns whether all bytes are written.
  bool take(std::size_t count) noexcept;

  std::span<const iovec> rest_;
  iovec first_{};  // the rest of rest_[0], once a part of rest_[0] is written
  std::size_t sent_bytes_ = 0;
  bool transfers_all_;
};

struct wait_operation : single_request<readiness_request> {
  using value_type = void;
  static constexpr const char* name = "gyre::io: wait";

  wait_operation(open_descriptor* descriptor, direction side) noexcept
      : single_request(descriptor, side, nullptr) {}

  static void value(io::result) noexcept {}
};

/// Waits until there is something to read; a stop ends the wait only while there is nothing.
struct wait_for_input_operation : wait_operation {
  static constexpr const char* name = "gyre::io::stream: wait_for_input";

  explicit wait_for_input_operation(open_descriptor* descriptor) noexcept
      : wait_operation(descriptor, direction::read) {}

  std::optional<result> outcome_despite_stop() noexcept {
    open_descriptor& source = *descriptor();
    if (!source.io().has_arrivals(source.handle())) return std::nullopt;
    return result::of(0);
  }
};

/// Sends `count` bytes of a file, or fewer if the file ends before.
struct send_file_operation : counting_request<send_file_request> {
  static constexpr const char* name = "gyre::io::stream: send_file";

  send_file_operation(open_descriptor* descriptor, int source, ::off_t first,
                      std::size_t count) noexcept
      : counting_request(descriptor, source, first, count, nullptr) {}

  std::optional<io::result> begin() noexcept;
  std::optional<io::result> advance(io::result outcome) noexcept;

 private:
  /// Counts sent bytes. Returns whether the operation has ended: all is sent, or the file ends.
  bool take(std::size_t count) noexcept {
    sent_bytes_ += count;
    return unsent_bytes == 0 || count == 0;
  }

  std::size_t sent_bytes_ = 0;
};

}  // namespace gyre::io::detail
