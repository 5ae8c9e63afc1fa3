"""The values that questions ask for, in eight languages, and the sentences that state them."""

import pytest

from backstory.writing.answers.asked_values import find_asked_value, states_value

PAIRS = [
    ("what did cover for the party set us back", "price", "A day cost 58 pounds.", "A policy is for a day."),
    ("Was hat der Eintritt gekostet?", "price", "Die Karte war für 12 Euro zu haben.", "Die Karte gilt einen Tag."),
    ("Combien coûte le billet ?", "price", "Le billet est à 12 €.", "Le billet est bleu."),
    ("¿Cuánto costó la bomba?", "price", "Pagamos 40 euros.", "La bomba es de acero."),
    ("Quanto è costata la pompa?", "price", "L'abbiamo presa per 40 euro.", "La pompa è di acciaio."),
    ("Quanto custou a bomba?", "price", "Foram 40 euros.", "A bomba é de aço."),
    ("Сколько стоит билет?", "price", "Билет продают за 300 рублей.", "Билет синий."),
    ("Sigorta ne kadar tuttu?", "price", "Bir günlük poliçe 300 lira.", "Poliçe bir gün geçerli."),
    ("name of the hotel in porto", "name", "In Porto we slept at the Aurora.", "In Porto we slept at a small hotel."),
    ("¿Cómo se llama el gato?", "name", "Su gato es Canela.", "Su gato es gris."),
    ("Come si chiama il gatto?", "name", "Il suo gatto è «Fuliggine».", "Il suo gatto è grigio."),
    ("Как зовут кота?", "name", "Её кот, Барсик, спит.", "Её кот спит."),
    ("who won the raffle", "person", "The raffle went to our neighbour.", "The raffle was at noon."),
    ("Quem ganhou o jogo?", "person", "O jogo foi da Beatriz.", "O jogo acabou tarde."),
    ("Kim kazandı?", "person", "Oyunu dün Deniz kazandı.", "Oyun geç bitti."),
    ("how long is the warranty", "duration", "The warranty ends after ten years.", "The warranty is void."),
    ("Wie lange dauert die Fahrt?", "duration", "Die Fahrt braucht zwei Stunden.", "Die Fahrt ist teuer."),
    ("Combien de temps dure le trajet ?", "duration", "Il faut deux heures.", "Le trajet est cher."),
    ("Yolculuk ne kadar sürüyor?", "duration", "Yol iki saat.", "Yol güzel."),
    ("in which year did she move here", "year", "She came in 1987.", "She came with two cats."),
    ("В каком году она приехала?", "year", "Она приехала в 1987 году.", "Она приехала летом."),
    ("on which day is welsh", "day", "We meet on Wednesdays.", "We meet at nine."),
    ("Che giorno è la riunione?", "day", "Ci vediamo martedì.", "Ci vediamo alle nove."),
    ("Wann öffnet das Museum?", "date", "Es öffnet um 10:30.", "Es öffnet der Sohn."),
    ("Quando abre o museu?", "date", "Abre às 10h30.", "Abre o filho."),
    ("how often is the filter rinsed", "frequency", "It is rinsed every second week.", "It is rinsed well."),
    ("Wie oft wird der Filter gespült?", "frequency", "Er wird zweimal gespült.", "Er wird gespült."),
    ("how hot does compost get", "temperature", "It climbs to sixty degrees.", "It climbs fast."),
    ("how tall is the tank", "length", "It stands 40 cm up.", "It stands on pallets."),
    ("Quelle est la hauteur de la tour ?", "length", "La tour fait 30 mètres.", "La tour est vieille."),
    ("how heavy is the cat", "weight", "The vet says 5 kilos.", "The vet says too much."),
    ("how old is the driver", "number", "He is sixty.", "He is retired."),
    ("power limit for the home server", "number", "Forty watts at most.", "The server is small."),
    ("¿Cuántas personas vinieron?", "number", "Vinieron treinta.", "Vinieron todos."),
]  # fmt: skip


@pytest.mark.parametrize(("question", "name", "stating", "lacking"), PAIRS)
def test_a_sentence_states_what_is_asked_for_or_lacks_it(
    question: str, name: str, stating: str, lacking: str
) -> None:
    value = find_asked_value(question)
    assert value is not None
    assert value.name == name
    assert states_value(value, question, stating)
    assert not states_value(value, question, lacking)


@pytest.mark.parametrize(
    "question",
    [
        "how do i clean the drippers",
        "why is the tank green",
        "what stopped the tank from going green",
        "Warum ist der Tank grün?",
        "¿Por qué está verde el tanque?",
        "Почему вода зелёная?",
        "A larger dose of it lowers the blood pressure.",
    ],
)
def test_what_any_words_may_tell_asks_for_no_value(question: str) -> None:
    assert find_asked_value(question) is None


def test_a_value_of_the_question_is_no_answer() -> None:
    value = find_asked_value("how many moths were there in 2024")
    assert value is not None
    assert not states_value(value, "how many moths were there in 2024", "In 2024 there were moths.")
