// SPDX-License-Identifier: Apache-2.0
// ordered_reader: messages of a stream in their order, each once, without acknowledgements.
//
// The consumer behind it exists for this reader only, in the memory of one server. When it is lost,
// or a message of it is, another one continues after the last message that was returned.
#pragma once

#include <gyre/engines/nats/consumer_config.hpp>
#include <gyre/engines/nats/consumer_info.hpp>
#include <gyre/engines/nats/detail/jetstream_core.hpp>
#include <gyre/engines/nats/detail/pull_reader.hpp>
#include <gyre/engines/nats/message.hpp>
#include <gyre/engines/nats/message_metadata.hpp>
#include <gyre/task/task.hpp>

#include <cstdint>
#include <memory>
#include <optional>
#include <string>

namespace gyre::nats::detail {

/// Thread-safety: the loop's thread; one coroutine waits at a time.
class ordered_reader {
 public:
  struct ordered_message {
    message content;
    message_metadata metadata;
  };

  /// `config`: where to begin, and subjects; the other fields are the reader's.
  ordered_reader(std::shared_ptr<jetstream_core> core, std::string stream, consumer_config config);
  ordered_reader(const ordered_reader&) = delete;
  ordered_reader& operator=(const ordered_reader&) = delete;
  ~ordered_reader() { close_consumer(); }

  /// Creates the consumer, so that messages from now on are found. Without this call the first read
  /// creates it.
  task<> open_consumer();
  /// Waits for the next message, and returns it; std::nullopt once the client is closed.
  task<std::optional<ordered_message>> next();
  /// Returns the next of the messages that existed when the reader was opened; std::nullopt after
  /// the last.
  task<std::optional<ordered_message>> next_initial();

 private:
  task<std::optional<ordered_message>> read(pull_reader::mode read_mode);
  /// The result is empty if messages before this one are missing.
  std::optional<ordered_message> accept(message&& content);
  void close_consumer() noexcept;

  const std::shared_ptr<jetstream_core> core_;
  const std::string stream_;
  consumer_config config_;
  std::string consumer_;
  std::unique_ptr<pull_reader> reader_;        // null while there is no consumer
  std::uint64_t consumer_sequence_ = 0;        // the consumer's number of the last message
  std::optional<std::uint64_t> last_message_;  // the stream's number of that message
  std::uint64_t initial_left_ = 0;  // initial messages that next_initial() has yet to return
  bool has_initial_ = true;
};

}  // namespace gyre::nats::detail
