// SPDX-License-Identifier: Apache-2.0
// client_core: the subscriptions and requests of a NATS client.
#pragma once

#include <gyre/base/intrusive_list.hpp>
#include <gyre/engines/nats/client_options.hpp>
#include <gyre/engines/nats/detail/message_block.hpp>
#include <gyre/engines/nats/detail/parser.hpp>
#include <gyre/engines/nats/detail/server_link.hpp>
#include <gyre/engines/nats/detail/slot_table.hpp>
#include <gyre/engines/nats/detail/subscription_state.hpp>
#include <gyre/engines/nats/message.hpp>
#include <gyre/engines/nats/payload_view.hpp>
#include <gyre/engines/nats/publish_options.hpp>
#include <gyre/engines/nats/subscription.hpp>
#include <gyre/engines/nats/subscription_options.hpp>
#include <gyre/exec/event_loop.hpp>
#include <gyre/sync/event.hpp>
#include <gyre/task/task.hpp>

#include <cstddef>
#include <cstdint>
#include <exception>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

namespace gyre::nats::detail {

/// The calls of a client are its static functions, whose first argument keeps the core: null after
/// the client was moved from, for which they throw io::errc::not_open.
///
/// Requests share one subscription to "PREFIX.*", from the first of them on. The last token of a
/// request's reply subject is its key in a slot_table, so that a late reply finds no other request.
///
/// Thread-safety: the loop's thread.
class client_core final : public server_link {
 public:
  using shared = std::shared_ptr<client_core>;

  client_core(event_loop& loop, const std::vector<std::string>& servers,
              const client_options& options);

  /// Throws std::system_error (io::errc::not_open) for null.
  static client_core& of(const shared& core);

  static task<> connect(shared core);
  static task<> publish(shared core, std::string_view subject, payload_view payload,
                        publish_options options);
  static bool try_publish(const shared& core, std::string_view subject, payload_view payload,
                          const publish_options& options);
  static task<> flush(shared core);
  static task<message> request(shared core, std::string_view subject, payload_view payload,
                               request_options options);
  static subscription subscribe(const shared& core, std::string subject,
                                subscription_options options);
  static task<> drain(shared core);
  std::string new_inbox();

  /// Ends a subscription; its messages are dropped.
  void unsubscribe(subscription_state& target) noexcept;
  static task<> drain_subscription(shared core, std::shared_ptr<subscription_state> target);
  void close() noexcept;
  client_metrics metrics() const noexcept;

 private:
  /// A request that waits for its reply, in the frame of its coroutine.
  class pending_request {
   public:
    pending_request(client_core& core, std::string_view subject);
    pending_request& operator=(pending_request&&) = delete;
    ~pending_request() { core_.requests_.erase(key_); }

    std::uint64_t key() const noexcept { return key_; }
    std::string_view subject() const noexcept { return subject_; }
    auto wait() noexcept { return end_event_.wait(); }
    /// Returns the reply, or throws the error.
    message take_reply();

    void complete(message reply) noexcept;
    void fail(const std::exception_ptr& error) noexcept;

    bool is_handed_over = false;  ///< whether the connection has it, whose end loses it

   private:
    client_core& core_;
    const std::string_view subject_;
    std::uint64_t key_ = 0;
    manual_reset_event end_event_;
    message reply_;
    std::exception_ptr error_;
  };

  void on_ready() override;
  void on_message(const operation& delivery) override;
  void on_server_error(std::string_view text) override;
  void on_lost(const std::exception_ptr& error) noexcept override;
  void on_refused(const std::exception_ptr& error) noexcept override;
  std::size_t awaited_replies() const noexcept override { return requests_.size(); }
  bool needs_connection() const noexcept override { return subscriptions_.size() > 0; }

  /// The end of a drain(), which later calls wait for.
  struct drain_end {
    manual_reset_event end_event;
    std::exception_ptr error;
  };

  /// A message to be published.
  struct outgoing_message {
    std::string_view subject = {};
    std::string_view reply = {};
    std::string_view reply_end = {};  // follows `reply`, for the key of a request
    header_view headers = {};
    std::string_view payload = {};

    std::size_t headers_size() const noexcept;
    std::size_t size() const noexcept;  // returns an upper bound of the bytes of output
  };
  static outgoing_message publication_of(std::string_view subject, payload_view payload,
                                         const publish_options& options) noexcept;
  void check_message(const outgoing_message& publication) const;
  bool may_append_now(std::size_t size) const noexcept;
  void append_message(const outgoing_message& publication);
  void append_subscribe(const subscription_state& target);
  void append_unsubscribe(std::uint64_t sid, std::uint64_t limit);
  void append_inbox_subscription();
  [[noreturn, gnu::cold]] void throw_request_timeout(std::string_view subject) const;
  void take_reply(const operation& delivery);
  void deny(std::string_view text, const std::exception_ptr& error);
  void remove_subscription(subscription_state& target, bool must_unsubscribe) noexcept;
  void end_subscription(subscription_state& target, bool must_unsubscribe,
                        const std::exception_ptr& error = nullptr) noexcept;
  void end_all(const std::exception_ptr& error) noexcept;
  std::exception_ptr error_with(std::error_code code, std::string_view detail) const noexcept;
  task<> drain_all();

  std::string inbox_;  // the prefix of this client's reply subjects: "PREFIX.RANDOM."
  std::uint64_t next_inbox_ = 0;
  // Whether inbox_sid is subscribed; the first request does it.
  bool has_inbox_subscription_ = false;
  std::shared_ptr<drain_end> drain_;  // null before the first call of drain()
  slot_table<subscription_state> subscriptions_;
  // Subscriptions whose end next() has not returned.
  intrusive_list<subscription_state> unconsumed_;
  slot_table<pending_request> requests_;
  std::uint64_t published_messages_ = 0;
  std::uint64_t published_bytes_ = 0;
  std::uint64_t received_messages_ = 0;
  std::uint64_t received_bytes_ = 0;
  std::uint64_t dropped_messages_ = 0;
  std::uint64_t late_replies_ = 0;
  std::uint64_t server_errors_ = 0;
};

}  // namespace gyre::nats::detail
