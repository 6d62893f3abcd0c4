#!/usr/bin/env python3
"""BLEU, chrF and chrF++ of the sacrebleu package, for src/metrics to equal.

    text_metrics.py                    write tests/peers/goldens/text_metrics.json anew
    text_metrics.py --check            compute again and compare with the file; then hold build/sluice,
                                       if it is there, against sacrebleu on random lines
    text_metrics.py --files HYP REF    hold build/sluice against sacrebleu on two line-aligned files, and
                                       print the scores of both
"""

import argparse
import json
import pathlib
import random
import re
import subprocess
import sys
import tempfile

import sacrebleu
from sacrebleu.metrics import BLEU, CHRF

GOLDEN = pathlib.Path(__file__).parent / "goldens" / "text_metrics.json"
# What trained models answered.
REAL = pathlib.Path(__file__).parent / "real_output.json"
PROGRAM = pathlib.Path(__file__).parents[2] / "build" / "sluice"
TOKENIZERS = "13a", "zh", "char", "none"
CHRF_WORD_ORDERS = {"chrF2": 0, "chrF2++": 2}

PLAIN = ("the cat sat on the mat near the door .", "a dog runs over a green field",
         "two people walk along the beach at night", "he reads a book")

HOSTILE = dict(
    plain=(["the cat sat on the mat by the door .", "a dog runs across the green field",
            "two people are walking along the beach", "he reads a book"], list(PLAIN)),
    identical=(list(PLAIN), list(PLAIN)),
    nothing_shared=(["xyz qqq www"], ["the cat sat"]),
    all_hypotheses_empty=(["", ""], ["the cat", "sat on the mat"]),
    all_references_empty=(["the cat", "sat on the mat"], ["", ""]),
    all_empty=(["", ""], ["", ""]),
    some_empty=(["the cat sat on the mat", "", "a dog runs over a green field", ""],
                ["the cat sat on the mat", "he reads a book", "", ""]),
    shorter_than_four_words=(["the cat", "a dog runs"], ["the cat", "a dog runs"]),
    one_letter=(["a"], ["a"]),
    no_four_gram_matches=(["the cat sat over a mat of the cat"], ["the cat sat on the mat"]),
    much_longer=(["the cat " * 40], ["the cat sat on the mat"]),
    repeated=(["the the the the the the the"], ["the cat is on the mat there"]),
    case=(["The Cat Sat On The Mat"], ["the cat sat on the mat"]),
    punctuation=(["\"Well,\" he said (slowly): it's 3.5% - isn't it?! [yes] {no} a/b a_b #1 @x ~ `y` <z>",
                  "...", ".,.,", "a.b.c,d", "- -- --- -.-", "co-operate e-mail, 2-3 2- -2 --2"],
                 ["\"Well\", he said slowly: it is 3.5 % - isn't it? [no] {yes} a / b a_b # 1 @ x ~ y < z >",
                  ". . .", ",.,.", "a . b.c , d", "--- -- - .-.", "cooperate email , 2 - 3 2 - - 2"]),
    numbers=(["1,000.50 1.000,50 3.14.15 .5 5. ,5 5, 1..2 1,,2 2020-11-22 10:30 1e-5 +49-30"],
             ["1,000.50 1 000,50 3.14 .15 0.5 5 . , 5 5 , 1 .. 2 1 , , 2 2020-11-21 10:31 1e - 5 49 - 30"]),
    entities=(["a &amp; b &lt;c&gt; &quot;d&quot; &amp;lt; &amp;amp; &apos; & <skipped> e<skipped>f &amp"],
              ["a & b <c> \"d\" < &amp; &apos; & e ef & amp"]),
    accents=(["Zwei Männer stehen am Herd und bereiten Essen zu, süß.", "Ein naïver Straßenhändler – «groß»"],
             ["Zwei Männer stehen am Herd und kochen Essen; süß!", "Ein naiver Straßenhändler — „groß“"]),
    composed=(["é n̈ 가 ﬁ"], ["e\u0301 n\u0308 \u1100\u1161 fi"]),
    chinese=(["我今天很高兴,你呢?", "他2020年去了北京。。。", "ＡＢＣ abc 3.5公里", "你好 ."],
             ["我今天非常高兴，你呢？", "他在2020年去过北京。", "ABC abc 3.5 公里", "你好."]),
    chinese_ends=([".5 。", ",你好,", " . "], ["5. 。", ", 你好 ,", "."]),
    beyond_the_first_plane=(["𠮷野家 😀😀 a😀b 𝔘𝔫𝔦", "👩‍👩‍👧 ok"], ["吉野家 😀 a😀b 𝔘𝔫𝔦", "👩‍👧 ok"]),
    white_space=(["\u3000a\u00a0b\u2009c\td\u2028e\u200bf\u0085g\u001ch  ", " a  b "],
                 ["a b c d e f g h", "a b"]),
    right_to_left=(["שלום עולם, מה שלומך؟", "مرحبا بالعالم ١٢٣٫٥"], ["שלום עולם. מה שלומך?", "مرحبا يا عالم ١٢٣٫٥"]),
    controls=(["a\u0000b \u0001 \u007f .\u0007"], ["a b \u0001 \u007f ."]),
)

ALPHABETS = (
    "abc ",
    "ab.,-12 ",
    "ab 01.,-:;!?'\"()[]{}<>&/%$#@*+=\\^_`|~",
    "aß é你好，。 ！北京2.5-",
    "a.\u3000\u00a0\u2003😀𠮷\u200b\u0301１２，、-",
)


def random_corpus(generator):
    """Lines of one alphabet, and the same lines after some edits."""
    alphabet = generator.choice(ALPHABETS)
    words = ["".join(generator.choices(alphabet, k=generator.randint(1, 5))) for _ in range(12)]
    words += ["&amp;", "&lt;", "<skipped>"] if generator.random() < 0.2 else []
    between = generator.choice(["", " "])
    hypotheses, references = [], []
    for _ in range(generator.randint(1, 8)):
        reference = generator.choices(words, k=generator.choice([0, 1, 3, 8, 20]))
        hypothesis = list(reference)
        for _ in range(generator.choice([0, 1, 2, 6])):
            at = generator.randint(0, len(hypothesis))
            hypothesis[at:at + generator.randint(0, 2)] = generator.choices(words, k=generator.randint(0, 2))
        if generator.random() < 0.05:
            hypothesis = []
        hypotheses.append(between.join(hypothesis))
        references.append(between.join(reference))
    return hypotheses, references


def score(hypotheses, references):
    bleu = {}
    for tokenizer in TOKENIZERS:
        result = BLEU(tokenize=tokenizer).corpus_score(hypotheses, [references])
        bleu[tokenizer] = dict(score=result.score, precisions=result.precisions,
                               brevity_penalty=result.bp, hypothesis_tokens=result.sys_len,
                               reference_tokens=result.ref_len)
    chrf = {name: CHRF(word_order=order).corpus_score(hypotheses, [references]).score
            for name, order in CHRF_WORD_ORDERS.items()}
    return dict(bleu=bleu, chrf=chrf)


def cases():
    generator = random.Random(5)
    corpora = dict(HOSTILE, **{f"random_{i}": random_corpus(generator) for i in range(30)})
    real = json.loads(REAL.read_text(encoding="utf-8"))
    for name in "translations", "chat":
        corpora[f"real_{name}"] = real[name]["hypotheses"], real[name]["references"]
    return [dict(name=name, hypotheses=hypotheses, references=references,
                 **score(hypotheses, references))
            for name, (hypotheses, references) in corpora.items()]


def numbers(tree):
    if isinstance(tree, dict):
        tree = [tree[key] for key in sorted(tree)]
    return [value for part in tree for value in numbers(part)] if isinstance(tree, list) else [tree]


def compare_golden():
    golden = json.loads(GOLDEN.read_text(encoding="utf-8"))["cases"]
    now = cases()
    assert [case["name"] for case in now] == [case["name"] for case in golden]
    worst = max(abs(new - old) for a, b in zip(now, golden) for part in ("bleu", "chrf")
                for new, old in zip(numbers(a[part]), numbers(b[part])))
    print(f"largest difference from {GOLDEN.name}: {worst:.2e}")
    return worst < 1e-9


def of_program(hypotheses, references, tokenizer):
    """BLEU, chrF2 and chrF2++ as `sluice evaluate` prints them."""
    said = subprocess.run([PROGRAM, "evaluate", hypotheses, references, "--tokenizer", tokenizer,
                           "--digits", "9"], check=True, capture_output=True, text=True).stdout
    return [float(re.search(rf"^{re.escape(name)} ([0-9.]+)", said, re.M)[1])
            for name in ("BLEU", *CHRF_WORD_ORDERS)]


def compare_program(hypotheses, references, shows=False):
    """The largest difference over all tokenizers on two files."""
    lines = [pathlib.Path(file).read_text(encoding="utf-8").split("\n")[:-1]
             for file in (hypotheses, references)]
    expected = score(*lines)
    worst = 0
    for tokenizer in TOKENIZERS:
        wanted = [expected["bleu"][tokenizer]["score"], *expected["chrf"].values()]
        got = of_program(hypotheses, references, tokenizer)
        worst = max([worst] + [abs(a - b) for a, b in zip(got, wanted)])
        if shows:
            names = ["BLEU " + tokenizer] + list(CHRF_WORD_ORDERS) * (tokenizer == TOKENIZERS[-1])
            for name, *both in zip(names, got, wanted):
                print(f"{name:12} sluice {both[0]:.9f}  sacrebleu {both[1]:.9f}")
    return worst


def compare_random(count):
    generator = random.Random()
    worst = 0
    with tempfile.TemporaryDirectory() as folder:
        files = [pathlib.Path(folder) / name for name in ("hypotheses", "references")]
        for _ in range(count):
            corpus = random_corpus(generator)
            for file, lines in zip(files, corpus):
                file.write_text("".join(line + "\n" for line in lines), encoding="utf-8")
            difference = compare_program(*files)
            if difference > 1e-8:
                print(f"differs by {difference} on {corpus}")
            worst = max(worst, difference)
    print(f"largest difference of sluice evaluate on {count} random files: {worst:.2e}")
    return worst < 1e-8


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--check", action="store_true", help="compare instead of writing")
    parser.add_argument("--files", nargs=2, metavar=("HYP", "REF"), help="compare on these")
    arguments = parser.parse_args()
    if arguments.files:
        worst = compare_program(*arguments.files, shows=True)
        print(f"largest difference of sluice evaluate: {worst:.2e}")
        return 0 if worst < 1e-8 else 1
    if arguments.check:
        if not compare_golden():
            return 1
        return 0 if not PROGRAM.exists() or compare_random(200) else 1
    golden = dict(sacrebleu=sacrebleu.__version__, cases=cases())
    GOLDEN.write_text(json.dumps(golden, separators=(",", ":")).replace('{"name"', '\n{"name"') + "\n",
                      encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
