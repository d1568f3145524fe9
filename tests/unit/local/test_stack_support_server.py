from __future__ import annotations

from local.support_server import answer_to, chunks_of


def test_the_stand_in_says_what_it_is_and_quotes_the_last_question() -> None:
    text = answer_to(
        [
            {"role": "system", "content": "be kind"},
            {"role": "user", "content": "first"},
            {"role": "assistant", "content": "x"},
            {"role": "user", "content": "How do I monetise?"},
        ]
    )
    assert "local stand-in" in text
    assert text.endswith("You asked: How do I monetise?")


def test_streamed_pieces_join_to_the_whole_answer_and_end_with_a_reason() -> None:
    text = answer_to([{"role": "user", "content": "a  b"}])
    chunks = list(chunks_of(text, answer_id="chatcmpl-1", created=5))
    choices = [chunk["choices"][0] for chunk in chunks]
    assert choices[0]["delta"]["role"] == "assistant"
    assert "".join(choice["delta"].get("content", "") for choice in choices) == text
    assert [choice["finish_reason"] for choice in choices] == [None] * (len(choices) - 1) + ["stop"]
    assert {(chunk["id"], chunk["object"], chunk["created"]) for chunk in chunks} == {
        ("chatcmpl-1", "chat.completion.chunk", 5)
    }
