// SPDX-License-Identifier: Apache-2.0
// multipart_writer: builds bodies of multipart/form-data, as a whole or piece by piece.
//
//     gyre::http::multipart_writer writer;
//     writer.add("title", "Holidays").add_file("photo", "beach.jpg", "image/jpeg", photo);
//     std::string body = writer.finish().take();
//     std::string header = writer.content_type();  // multipart/form-data; boundary=…
#pragma once

#include <cstddef>
#include <span>
#include <string>
#include <string_view>

namespace gyre::http {

/// Builds the body of a request. Its boundary is random, so that data cannot contain it unless they
/// were made with knowledge of it.
///
/// To send a large file without holding it in memory, call start_file(), send the result of take(),
/// send the file's bytes, and continue with the next part or finish().
///
/// Names are encoded as browsers do: "%0D", "%0A" and "%22" for CR, LF and quotes; backslashes are
/// doubled. multipart_reader thus returns all names unchanged, except those that contain "%22",
/// "%0D" or "%0A".
///
/// Thread-safety: none; may be handed from thread to thread.
/// Errors: members throw std::invalid_argument, and add nothing, for a value that contains the
/// boundary, a name with a control character other than CR, LF and tab, a malformed content type,
/// and a part after finish().
/// Complexity: holds all text that was added and not taken; add() and add_file() search the bytes
/// for the boundary, and copy them.
class multipart_writer {
 public:
  /// Chooses a boundary of 128 random bits.
  multipart_writer();
  /// Uses a fixed boundary, for tests that compare bodies. Errors: std::invalid_argument for a
  /// malformed boundary.
  explicit multipart_writer(std::string_view boundary);

  /// The value of Content-Type for the body.
  [[nodiscard]] std::string content_type() const;
  [[nodiscard]] const std::string& boundary() const noexcept { return boundary_; }

  /// Adds a field.
  multipart_writer& add(std::string_view name, std::string_view value);
  /// Adds a file.
  multipart_writer& add_file(std::string_view name, std::string_view file_name,
                             std::string_view content_type, std::span<const std::byte> bytes);
  multipart_writer& add_file(std::string_view name, std::string_view file_name,
                             std::string_view content_type, std::string_view text);
  /// Adds the headers of a file, whose bytes the caller sends after take(). The bytes must not
  /// contain the boundary; this is not checked.
  multipart_writer& start_file(std::string_view name, std::string_view file_name,
                               std::string_view content_type);
  /// Ends the body.
  multipart_writer& finish();

  /// The part of the body that was not taken yet.
  [[nodiscard]] const std::string& text() const noexcept { return text_; }
  /// Moves text() out; later additions form the next text().
  [[nodiscard]] std::string take() noexcept;

 private:
  void refuse(std::string_view reason) const;
  void refuse_boundary_in(std::string_view bytes) const;
  void append_head(std::string_view name, const std::string_view* file_name,
                   std::string_view content_type);

  std::string boundary_;
  std::string text_;
  bool has_parts_ = false;
  bool is_finished_ = false;
};

}  // namespace gyre::http
