#include "decode_options.h"

namespace sluice::app {

DecodeOptions DecodeFlags::options() const {
  DecodeOptions options = decode;
  if (sample) options.sample = sampling;
  options.banned = words.all_banned();
  options.no_repeat = words.no_repeat;
  return options;
}

void add_drawing_options(CLI::App& command, SampleOptions& sampling) {
  command
      .add_option("--temperature", sampling.temperature,
                  "Below 1 probable tokens are drawn more often, above 1 less often; 0 takes the "
                  "most probable one")
      ->capture_default_str();
  CLI::Option* top_k =
      command
          .add_option("--top-k", sampling.top_k,
                      "Draw from this many of the most probable tokens; 0: from all")
          ->capture_default_str();
  CLI::Option* top_p =
      command
          .add_option(
              "--top-p", sampling.top_p,
              "Draw from the fewest most probable tokens that together have this probability")
          ->capture_default_str();
  command.add_option("--seed", sampling.seed, "The same seed gives the same answers")
      ->capture_default_str();
  command
      .add_flag("--without-replacement", sampling.without_replacement,
                "Draw no answer of an input twice, by stochastic beam search")
      ->excludes(top_k)
      ->excludes(top_p);
}

void add_decode_options(CLI::App& command, DecodeFlags& flags) {
  DecodeOptions& decode = flags.decode;
  CLI::Option* beam = command.add_option("--beam", decode.beam, "Beams of the search; 1 is greedy")
                          ->capture_default_str();
  CLI::Option* penalty =
      command
          .add_option("--length-penalty", decode.length_penalty,
                      "Answers compete by score / ((5 + length) / 6)^PENALTY; 0 for none")
          ->capture_default_str();
  CLI::Option* coverage =
      command
          .add_option("--coverage-penalty", decode.coverage_penalty,
                      "Add PENALTY * log(min(attention, 1)) of each input token to an answer's "
                      "normalised score: answers leave less of the input out; 0 for none")
          ->capture_default_str();
  add_group_options(command, decode.groups, decode.diversity);
  CLI::Option* sample =
      command.add_flag("--sample", flags.sample,
                       "Draw answers by their probability instead of searching for the best");
  add_word_options(command, flags.words);
  sample->excludes(beam)->excludes(penalty)->excludes(coverage);
  for (const char* searching : {"--groups", "--diversity", "--force"}) {
    sample->excludes(command.get_option(searching));
  }
  add_drawing_options(command, flags.sampling);
  for (const char* drawing :
       {"--temperature", "--top-k", "--top-p", "--seed", "--without-replacement"}) {
    command.get_option(drawing)->needs(sample);
  }
  command.add_option("--prefix", flags.prefix, "Text that every answer must begin with");
  command.add_option("--min-length", decode.min_length, "Minimum number of tokens of an answer")
      ->capture_default_str();
  command
      .add_option("--max-length", decode.max_length,
                  "Maximum number of tokens of an answer, which also has at most twice as many as "
                  "its input, plus 20")
      ->capture_default_str();
}

}  // namespace sluice::app
