"""A text on which ranges of values are measured where the user gives none: prose, code, figures, dialogue."""

from __future__ import annotations

SAMPLE_TEXT = """\
The harbour was quiet when the ferry came in. Two men threw ropes over the iron posts, and a woman with a red
umbrella counted the passengers: thirty-one, the same as yesterday. Nobody spoke. Behind the customs house the
baker had already lit his ovens, and the smell of warm bread drifted across the wet stones as far as the
bridge.

Question: A train leaves at 9:15 and travels 240 km at 80 km/h. When does it arrive?
Answer: 240 divided by 80 is 3, so the journey takes three hours. The train arrives at 12:15.

def moving_average(values, width):
    total, result = 0.0, []
    for index, value in enumerate(values):
        total += value
        if index >= width:
            total -= values[index - width]
        result.append(total / min(index + 1, width))
    return result

{"name": "sensor-7", "unit": "°C", "readings": [21.5, 21.7, 22.0, null], "online": true}

Dear Ms Okafor,
Thank you for your letter of 3 March. We have checked the invoice and agree that the freight was charged
twice.
The amount of $1,284.60 will be returned to your account within ten working days.
Kind regards, J. Lindqvist

Photosynthesis turns light into chemical energy. In the leaves of green plants, chlorophyll absorbs red and
blue
light; water is split, oxygen is set free, and carbon dioxide is bound into sugar. At night the plant
breathes as
animals do, and uses a part of the sugar that it made during the day.

SELECT city, COUNT(*) AS orders, AVG(amount) FROM sales WHERE year = 2024 GROUP BY city ORDER BY orders DESC;

Der Zug nach Norden fährt heute von Gleis 4. Le musée est fermé le mardi. El perro duerme debajo de la mesa.
Il pane è sul tavolo, accanto alla finestra. Tomorrow I will write to you again.

User: Can you give me three tips for sleeping better?
Assistant: Of course.
1. Go to bed at the same time every day, also at the weekend.
2. Keep the room dark, cool and quiet, and leave your phone outside.
3. Drink no coffee after lunch. If you cannot sleep, get up and read until you are tired.
User: And what about a nap in the afternoon?
Assistant: A short nap is fine. Twenty minutes are enough; much longer, and the night will be harder.

The committee met four times. Its report, which runs to 212 pages, argues that the old aqueduct can be
repaired
for about a third of the price of a new one, provided that work begins before the spring floods. Critics
say that
the survey was too short: only nine of the forty pillars were examined. Both sides agree on one point,
namely that
doing nothing would be the most expensive choice of all.

#include <stdio.h>
int main(void) {
    for (int i = 1; i <= 15; ++i) {
        if (i % 15 == 0) puts("FizzBuzz");
        else if (i % 5 == 0) puts("Buzz");
        else printf("%d\\n", i);
    }
    return 0;
}

Recipe: mix 250 g of flour with a pinch of salt, rub in 125 g of cold butter, add one egg and a spoonful of
water.
Let the dough rest for half an hour, roll it out, and bake it at 190 degrees until the edges are golden.

If x + 3y = 11 and 2x - y = 1, then y = 2x - 1, so x + 6x - 3 = 11, 7x = 14, x = 2 and y = 3. Check: 2 + 9
= 11.

"You never told me about the letter," she said. He looked at the floor. "I meant to. Then the telephone
rang, and
it was about your mother, and afterwards there was no good moment." She laughed, although she was still angry.
"There is never a good moment. That is what moments are like."

| planet  | moons | days in a year |
|---------|-------|----------------|
| Mercury | 0     | 88             |
| Mars    | 2     | 687            |
| Jupiter | 95    | 4333           |

ERROR 2024-11-05 13:37:02 worker[18]: connection to 10.0.0.12:5432 refused (attempt 3 of 5), retrying in 8 s
WARN  2024-11-05 13:37:10 worker[18]: slow answer: 2.81 s for GET /api/v1/orders?page=7&limit=50

In the seventeenth century, instrument makers in Florence and London competed for the favour of
astronomers. A good
lens took weeks to grind. The glass had to be free of bubbles, the curve had to be even, and the slightest
grain of
sand in the polish spoiled everything. Of ten lenses, perhaps two were sold; the others were melted down
again.

To install the program, open a terminal and type the command below. Then restart the computer, choose
Settings,
Network, Advanced, and enter the address of your server. Should the light stay red, hold the button for 5
seconds.
"""
