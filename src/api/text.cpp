#include "sluice/text.h"

#include "base/counted.h"
#include "base/suggest.h"
#include "data/corpus.h"
#include "data/line_reader.h"
#include "data/table.h"
#include "io/name_of_input.h"
#include "io/output_file.h"

namespace sluice {

std::vector<std::string> read_lines(const std::string& path) { return data::read_lines(path); }

std::vector<std::pair<std::string, std::string>> read_pairs(const std::string& source_path,
                                                            const std::string& target_path) {
  std::vector<std::pair<std::string, std::string>> pairs;
  for (data::TextPair& pair : target_path.empty()
                                  ? data::read_tsv_pairs(source_path)
                                  : data::read_aligned_pairs(source_path, target_path)) {
    pairs.emplace_back(std::move(pair.source), std::move(pair.target));
  }
  return pairs;
}

std::vector<std::string> read_column(const std::string& path, const std::string& column) {
  data::Table table = data::read_table(path);
  const std::size_t place = table.column(column);
  std::vector<std::string> fields;
  for (std::vector<std::string>& row : table.rows) fields.push_back(std::move(row[place]));
  return fields;
}

std::string name_of_input(const std::string& path) { return io::name_of_input(path); }

std::string counted(std::int64_t number, std::string_view noun) {
  return base::counted(number, noun);
}

std::string did_you_mean(std::string_view unknown, std::span<const std::string> known) {
  const std::vector<std::string_view> names(known.begin(), known.end());
  return base::did_you_mean(unknown, names);
}

std::vector<std::string> column_names(const std::string& line) { return data::column_names(line); }

void require_writable(const std::string& path) { io::require_writable(path); }

bool is_same_output(const std::string& one, const std::string& other) {
  return io::is_same_output(one, other);
}

void write_text(const std::string& path, std::string_view text) {
  io::OutputFile file(path);
  file.write(std::as_bytes(std::span(text)));
  file.commit();
}

}  // namespace sluice
