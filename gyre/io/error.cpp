// SPDX-License-Identifier: Apache-2.0
#include <gyre/io/error.hpp>

#include <gyre/base/detail/enum_category.hpp>

#include <algorithm>
#include <array>

namespace gyre::io {
namespace {

struct entry {
  errc error;
  std::errc equal_to;  // the equivalent std::errc; value-initialised if there is none
  const char* message;
};

constexpr std::array<entry, 26> entries{{
    {errc::unexpected_end, {}, "the stream ended before all requested bytes had come"},
    {errc::limit_exceeded, {}, "the delimiter or frame is not within the limit"},
    {errc::idle_timeout, std::errc::timed_out,
     "the connection was idle for longer than its idle timeout"},
    {errc::operation_timeout, std::errc::timed_out,
     "the handshake did not end within its time limit"},
    {errc::closed, std::errc::operation_canceled, "it was closed while an operation waited"},
    {errc::not_open, std::errc::bad_file_descriptor, "it is closed, or was moved from"},
    {errc::busy, std::errc::operation_in_progress,
     "another coroutine reads, writes or accepts there already"},
    {errc::wrong_thread, std::errc::operation_not_permitted,
     "not on the thread of its loop; resume_on() takes a coroutine there"},
    {errc::message_timeout, std::errc::timed_out,
     "a message was incomplete for longer than message_timeout"},
    {errc::write_timeout, std::errc::timed_out,
     "the peer took no output for longer than write_timeout"},
    {errc::close_timeout, std::errc::timed_out,
     "the peer did not take all output within close_timeout or close_limit"},
    {errc::connect_timeout, std::errc::timed_out,
     "the server did not answer within connect_timeout"},
    {errc::output_limit, std::errc::no_buffer_space,
     "more output would wait for the peer than output_limit"},
    {errc::input_limit, std::errc::no_buffer_space, "more input is unconsumed than input_limit"},
    {errc::memory_limit, std::errc::no_buffer_space,
     "the connection holds more than its share of the server's memory_limit"},
    {errc::fd_limit, std::errc::too_many_files_open,
     "the peer sent more descriptors than fd_limit, or than the process may open"},
    {errc::aborted, std::errc::connection_aborted,
     "the program aborted the connection, or a handler threw an exception"},
    {errc::connected_to_itself, std::errc::connection_refused,
     "no server listens there: the kernel connected the socket to itself"},
    {errc::frame_too_long, std::errc::message_size,
     "the message is longer than the maximum of its framing"},
    {errc::bad_frame_length, std::errc::bad_message,
     "the length of a message counts itself, but is smaller"},
    {errc::wrong_frame_size, std::errc::message_size,
     "the payload has another size than the frames of fixed size"},
    {errc::bad_proxy_header, std::errc::protocol_error,
     "the stream does not begin with a valid header of the PROXY protocol"},
    {errc::proxy_header_too_long, std::errc::message_size,
     "the header of the PROXY protocol is longer than the limit"},
    {errc::waiting_limit, std::errc::resource_unavailable_try_again,
     "more callers would wait for a connection than max_waiting; try again later"},
    {errc::watch_limit, std::errc::no_space_on_device,
     "all inotify watches of the user are in use; the sysctl fs.inotify.max_user_watches raises "
     "their number"},
    {errc::watch_moved, std::errc::no_such_file_or_directory,
     "the watched directory, or one above it, was renamed: directories that are made in it are not "
     "watched; add the watch again"},
}};

const entry* find(errc code) noexcept {
  const auto* const match = std::ranges::find(entries, code, &entry::error);
  return match == entries.end() ? nullptr : match;
}

const char* message_of(errc code) noexcept {
  const entry* const match = find(code);
  return match != nullptr ? match->message : "unknown error";
}

std::errc condition_of(errc code) noexcept {
  const entry* const match = find(code);
  return match != nullptr ? match->equal_to : std::errc();
}

}  // namespace

const std::error_category& error_category() noexcept {
  static const gyre::detail::enum_category<errc> category("gyre.io", message_of, condition_of);
  return category;
}

}  // namespace gyre::io
