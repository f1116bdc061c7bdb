// SPDX-License-Identifier: Apache-2.0
// headers, header_view: the headers of a NATS message.
//
//     gyre::nats::headers extra{{"Trace", "7f2a"}, {"Content-Type", "text/plain"}};
//     co_await bus.publish("orders.new", "hello", {.headers = extra});
//
//     if (auto trace = order.headers().find("Trace")) std::cout << *trace << '\n';
#pragma once

#include <cstddef>
#include <initializer_list>
#include <iterator>
#include <optional>
#include <string>
#include <string_view>

namespace gyre::nats {

/// A header: its name, which is case-sensitive, and a value.
struct header {
  std::string_view name;
  std::string_view value;
};

/// A view of headers in their order; a name may occur more than once. Lines that are not headers,
/// as other clients may send them, are left out; blanks around a value do not belong to it.
///
/// Lifetime: the message, or the headers, must outlive the view.
/// Complexity: find() and each step of an iteration read the text of the headers that they pass.
class header_view {
 public:
  class iterator {
   public:
    using iterator_category = std::input_iterator_tag;
    using value_type = header;
    using difference_type = std::ptrdiff_t;
    using pointer = const header*;
    using reference = const header&;

    iterator() noexcept = default;
    const header& operator*() const noexcept { return current_; }
    const header* operator->() const noexcept { return &current_; }
    iterator& operator++() noexcept {
      advance();
      return *this;
    }
    iterator operator++(int) noexcept {
      iterator old_iterator = *this;
      advance();
      return old_iterator;
    }
    friend bool operator==(const iterator& left, const iterator& right) noexcept {
      return left.current_.name.data() == right.current_.name.data();
    }

   private:
    friend header_view;
    explicit iterator(std::string_view text) noexcept : rest_(text) { advance(); }
    void advance() noexcept;

    header current_;  // the header at the position; its name is empty at the end
    std::string_view rest_;
  };

  constexpr header_view() noexcept = default;
  /// A view of lines "Name: value\r\n".
  constexpr explicit header_view(std::string_view lines) noexcept : lines_(lines) {}

  iterator begin() const noexcept { return iterator(lines_); }
  iterator end() const noexcept { return {}; }
  bool empty() const noexcept { return begin() == end(); }
  /// Returns the first value of the name.
  [[nodiscard]] std::optional<std::string_view> find(std::string_view name) const noexcept;
  /// Returns the lines as they are sent.
  constexpr std::string_view lines() const noexcept { return lines_; }

 private:
  std::string_view lines_;
};

/// Headers that a program makes, or a copy of those that it has received.
///
/// Errors: std::system_error (errc::bad_header) for a name that is empty or has blanks, ':',
/// control characters or characters beyond ASCII, and for a value with CR or LF.
class headers {
 public:
  headers() noexcept = default;
  headers(std::initializer_list<header> list);
  explicit headers(header_view source);
  /// For gyre's own use: a copy of what another client has sent, which need not keep these rules.
  static headers copy_received(header_view source);

  /// Adds a header; earlier ones of the name stay.
  headers& add(std::string_view name, std::string_view value);
  /// Replaces all headers of the name.
  headers& set(std::string_view name, std::string_view value);
  /// Removes all headers of the name.
  headers& remove(std::string_view name);

  operator header_view() const noexcept { return header_view(lines_); }
  header_view::iterator begin() const noexcept { return header_view(lines_).begin(); }
  header_view::iterator end() const noexcept { return {}; }
  bool empty() const noexcept { return lines_.empty(); }
  [[nodiscard]] std::optional<std::string_view> find(std::string_view name) const noexcept {
    return header_view(lines_).find(name);
  }

 private:
  std::string lines_;
};

}  // namespace gyre::nats
