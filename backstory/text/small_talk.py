"""Small talk: texts without content, such as greetings, thanks, assent, laughter, emoji and media placeholders.

Such a text asks for nothing, so no document can serve it. A text is small talk if the words of one language, together
with those that all languages share, make up all of it.
"""

from __future__ import annotations

import re
import unicodedata
from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from functools import cache
from itertools import chain
from types import MappingProxyType
from typing import Final

import regex

from backstory.text.stemmers import find_stemmer, list_stop_words

_EVERYWHERE: Final = """
    ok; okay; okey; oki; okie; k; kk; hi; hey; hello; hallo; bye; ciao; thanks; thank you; thx; sorry; pls; please; lol;
    rofl; rotf; lmao; omg; xd; wtf; haha; hehe; wow; yes; yeah; yep; no; nope; ah; aha; oh; uh; um; hm; hmm; mm; mmm;
    mhm; aw; oops; hurra; bravo; super; cool; nice; top; w; ww; ha; he; hi hi; btw; fyi; bb; s; eh; o o; pff; uff; ups;
    image omitted; video omitted; audio omitted; sticker omitted; gif omitted; document omitted; photo omitted; media
    omitted; contact card omitted; voice message omitted; video note omitted; video message omitted
"""

# By language: words that go with a name ("thanks, Ana"), then all other words. A semicolon ends a phrase. The stop
# words of the language, where there are any, count besides.
_EXPRESSIONS: Final = MappingProxyType({
    "en": (
        """hi; hello; hey; hiya; howdy; thanks; thank; thx; ty; thank you; cheers; bye; goodbye; welcome;
        good morning; good night; good evening; good afternoon; gn; gm; sorry; congratulations; congrats;
        go ahead; happy birthday; see you; great; excellent; super; nice; over to you""",
        """yes; yeah; yea; ye; yah; yep; yup; nope; nah; ok; sure; fine; right; alright; exactly; absolutely;
        definitely; indeed; correct; true; agreed; agree; perfect; awesome; amazing; wonderful; lovely;
        brilliant; fantastic; cool; good; well; maybe; perhaps; probably; hopefully; whatever; anyway; anyways;
        really; quite; pretty; actually; basically; also; still; already; yet; let; like; d; m; n; re; s; t; u;
        ve; ll; y; im; ive; dont; didnt; cant; thats; its; ill; youre; uh huh; mm hmm; huh; gonna; wanna; gotta;
        gotcha; got it; got you; dunno; know; i know; mean; guess; think; thought; suppose; hope; see; say;
        said; saying; go; go on; going; come on; tell; look; take a look; get; would; could; may; might; shall;
        must; one; thing; things; way; kind; sort; kind of; bit; little; lot; lots; time; much; many; something;
        anything; nothing; everything; everyone; everybody; folks; guys; all; any questions; question;
        next question; more questions; comment; comments; thoughts; any thoughts; anything to add; follow up;
        anything else; specific; hear; can you hear me; understand; understand me; better; best; love; like it;
        likes; enjoyed; appreciate; appreciated; interesting; funny; fun; sad; crazy; weird; strange; insane;
        awful; terrible; bad; helpful; hot; lucky; glad; happy; wish; chat; chatting; talk; talking;
        talking to you; nice chatting; day; have a good one; great day; weekend; evening; morning; night;
        tonight; today; tomorrow; later; soon; then; now; next week; next time; care; take care; sleep well;
        good luck; luck; no problem; no worries; np; my pleasure; pleasure; never mind; nvm; makes sense;
        make sense; made sense; sounds; sound; sounds good; point; fair enough; fair; valid; good idea;
        good question; idea; long; ago; wait; moment; second; done; take it; take this; offline; here we go;
        here you go; works; work; try; you bet; same here; same; ditto; back; brb; dear; friend; friends; guy;
        man; dude; mate; oh boy; gosh; god; damn; hell; wow; yay; imo; afaik; iirc; lets; up; please do; ones;
        even; kinda; sorta; else; ever; never; always; just; isnt; ouch; heard; meet you; meet; good to hear;
        that is it; have been; hang on; hold on; mention it; want; need; take; make; put; give; got; add; other;
        other questions; any other; kay; interested; useful; seem; seems; looks; looks good; looks better;
        move on; moving on; good job; great job; nice job; well done; raised your hand; your hand up; hand up;
        raise your hand; on mute; muted; unmute; hear us; nice talking; times; forgot; follow; sec;
        everyone else; someone; somebody; anyone; anybody; somehow; course; of course; far; certainly; totally;
        surely; exciting; excited; delighted; curious; sir; madam; ladies; gentlemen; buddy; bro; ha; ho; lmk;
        ttyl; cu; cya; ic; tbh; idk; jk""",
    ),
    "de": (
        """hallo; hi; hey; moin; moin moin; servus; grüezi; grüß dich; grüß gott; tschüss; tschüß; tschau; ciao;
        danke; dankeschön; vielen dank; danke schön; merci; guten morgen; guten tag; guten abend; gute nacht;
        gut nacht; nacht; morgen; willkommen; glückwunsch; herzlichen glückwunsch; sorry; entschuldigung;
        alles gute; bis morgen""",
        """ja; jo; jup; jep; jaja; nein; nee; ne; nö; ok; okay; klar; alles klar; genau; stimmt; eben; gut;
        gute; guten; sehr; super; prima; toll; klasse; perfekt; schön; schöne; schönen; schönes; cool; geil;
        krass; echt; wirklich; vielleicht; bestimmt; natürlich; sicher; mal; halt; doch; na; ach; tja; so; gell;
        oder; bitte; bitte schön; gern; gerne; gern geschehen; passt; geht; geht klar; mach ich; machen wir;
        mache; mach; weiß; weiß nicht; keine ahnung; ahnung; schade; leider; freut mich; freue mich; freu; lieb;
        lieben; liebe; liebe grüße; lg; vg; grüße; zusammen; leute; alle; euch; tag; abend; wochenende; heute;
        morgen; übermorgen; später; gleich; nachher; bald; bis; bis dann; bis bald; bis später; sehen;
        sehen uns; wir sehen uns; schlaf gut; schlaft gut; gute besserung; viel; spaß; viel spaß; viel erfolg;
        glück; viel glück; kein problem; kein thema; wie bitte; egal; haha; mega; auch; dir; rest; schönen rest;
        bild weggelassen; video weggelassen; audio weggelassen; sticker weggelassen; gif weggelassen;
        dokument weggelassen; medien ausgeschlossen; medien weggelassen; gesagt; find ich; finde; ich auch;
        klingt; klingt gut; hört sich; wie geht es; wie geht s; wie gehts; ganz; einen; n; s""",
    ),
    "es": (
        """hola; holi; buenas; buenos días; buen día; buenas tardes; buenas noches; gracias; muchas gracias;
        mil gracias; adiós; chao; chau; hasta luego; hasta mañana; hasta pronto; bienvenido; bienvenida;
        felicidades; enhorabuena; feliz cumpleaños; perdón; perdona; lo siento; besos; un beso""",
        """sí; si; no; vale; ok; dale; claro; exacto; eso; eso es; así es; cierto; correcto; de acuerdo;
        perfecto; genial; estupendo; bueno; buen; buena; muy; bien; mal; guay; qué bien; qué bueno; qué; q; k;
        pues; ya; ah; ay; uy; jaja; jeje; por supuesto; seguro; quizás; quizá; a lo mejor; tal vez; ni idea;
        no sé; sé; igual; también; tampoco; gente; chicos; chicas; chica; chico; tío; tía; hombre; mujer; amigo;
        amiga; todos; todas; domingo; finde; fin de semana; día; tarde; noche; noches; días; mañana; hoy; luego;
        pronto; después; ahora; nos vemos; nos; vemos; ve; hablamos; te; escribo; cuídate; cuidaos; suerte;
        buena suerte; descansa; a dormir; dormir; de nada; nada; no pasa nada; por favor; porfa; me alegro;
        alegro; encanta; me gusta; gusta; pobre; madre mía; dios mío; dios; lol; en serio; serio; verdad;
        de verdad; la verdad; venga; vamos; anda; oye; mira; ahí; aquí; allí; lo tienes; dices; cómo estás;
        qué tal; tal; abrazo; un abrazo; imagen omitida; video omitido; audio omitido; sticker omitido;
        gif omitido; documento omitido; multimedia omitido; suena bien; suena; vaya; pasa; haces;
        cuenta conmigo; sin comentarios; entendido; tranquilo; tranquila; ya está""",
    ),
    "pt": (
        """oi; oie; olá; ola; alô; bom dia; boa tarde; boa noite; obrigado; obrigada; muito obrigado;
        muito obrigada; brigado; brigada; obg; vlw; valeu; tchau; até; até logo; até amanhã; até mais;
        bem vindo; bem vinda; parabéns; feliz aniversário; desculpa; desculpe; foi mal; beijos; bjs""",
        """sim; não; nao; n; ok; tá; ta; tá bom; tá bem; blz; beleza; claro; certo; certeza; com certeza; isso;
        isso aí; exato; exatamente; verdade; pois é; pois; é; combinado; fechado; perfeito; ótimo; ótima; legal;
        massa; show; bacana; bom; boa; bem; mal; muito; mt; mto; q; pq; vc; vcs; tb; tbm; também; né; aí; ai;
        eita; nossa; nossa senhora; meu deus; deus; uau; kkk; kkkk; rs; sem comentários; demais; rindo alto;
        entendi; tranquilo; suave; rsrs; haha; hehe; talvez; sei lá; sei; não sei; gente; pessoal; galera;
        amigo; amiga; cara; mano; todos; todas; dia; tarde; noite; semana; fim de semana; hoje; hj; amanhã;
        depois; logo; agora; já; a gente se vê; nos vemos; se vê; vê; falamos; a gente se fala; se cuida;
        boa sorte; sorte; dorme bem; durma bem; de nada; nada; imagina; por favor; pfv; que bom; que pena; pena;
        adorei; amei; gostei; concordo; sério; tudo; tudo bem; tudo bom; e você; abraço; abraços; um abraço;
        beijo; imagem ocultada; imagem omitida; vídeo omitido; áudio ocultado; áudio omitido; figurinha omitida;
        gif omitido; documento omitido; mídia oculta; parece; parece bom; de novo; novo; vamos; bora; viu""",
    ),
    "fr": (
        """salut; bonjour; bonsoir; coucou; bonne nuit; bonne journée; bonne soirée; merci; merci beaucoup; mci;
        au revoir; adieu; bienvenue; félicitations; bravo; joyeux anniversaire; désolé; désolée; pardon;
        à demain; bises; bisous""",
        """oui; ouais; ouai; non; ok; d accord; daccord; dac; bien; très; très bien; parfait; super; génial;
        cool; top; chouette; exactement; exact; vrai; c est vrai; bien sûr; sûr; voilà; bof; peut être;
        sans doute; aussi; moi aussi; je sais; sais; sais pas; aucune idée; idée; ah; eh; ben; bah; bon; bonne;
        bons; tant mieux; tant pis; dommage; mdr; ptdr; haha; hihi; de rien; rien; pas de souci; pas de soucis;
        pas de problème; avec plaisir; plaisir; s il te plaît; s il vous plaît; stp; svp; à plus; à bientôt;
        bientôt; à tout à l heure; tout; demain; aujourd hui; ce soir; soir; matin; week end; on se voit; voit;
        on se parle; parle; courage; bonne chance; dors bien; dormez; prends soin; ça; ça va; va; ça marche;
        marche; ça roule; comment; vas; tout le monde; les gars; amis; merci à tous; tous; toutes;
        je t embrasse; trop; vraiment; journée; nuit; soirée; image absente; vidéo absente; audio omis;
        sticker omis; document manquant; médias omis; fichier omis; compris; vu; entendu""",
    ),
    "it": (
        """ciao; salve; buongiorno; buonasera; buonanotte; buon giorno; buona sera; buona notte; grazie;
        grazie mille; mille grazie; arrivederci; addio; benvenuto; benvenuta; auguri; complimenti; scusa;
        scusate; mi dispiace; a domani; buona giornata; buona serata; baci""",
        """sì; si; no; ok; va bene; bene; certo; esatto; giusto; vero; è vero; d accordo; perfetto; ottimo;
        ottima; bello; bella; bravo; brava; bravi; fantastico; grande; molto; troppo; davvero; forse; magari;
        non so; so; boh; mah; beh; eh; ah; dai; allora; anche io; anch io; anche; pure; infatti; appunto; prego;
        di niente; di nulla; niente; figurati; per favore; per piacere; piacere; peccato; mi piace; piace; haha;
        ahah; ahahah; hihi; ragazzi; ragazze; tutti; tutte; raga; amico; amica; oggi; domani; dopo; presto;
        a presto; a dopo; ora; adesso; stasera; ci vediamo; vediamo; ci sentiamo; sentiamo; buon; buona;
        weekend; fine settimana; giornata; serata; notte; sera; dormi bene; in bocca al lupo; fortuna;
        buona fortuna; come stai; come va; va; tutto; tutto bene; un abbraccio; abbraccio; bacio;
        immagine omessa; video omesso; audio omesso; gif esclusa; documento omesso; media omessi; capito;
        ho capito; suona bene; mi pare; ci sto""",
    ),
    "nl": (
        """hallo; hoi; hey; hi; dag; doei; houdoe; goedemorgen; goedemiddag; goedenavond; goede morgen;
        welterusten; goedenacht; dank; dank je; dank u; dankjewel; bedankt; dankje; merci; welkom;
        gefeliciteerd; proficiat; sorry; tot morgen; groetjes""",
        """ja; jawel; jep; nee; neen; oké; ok; goed; prima; top; super; leuk; mooi; fijn; geweldig; perfect;
        gaaf; tof; lekker; klopt; precies; inderdaad; zeker; natuurlijk; uiteraard; misschien; echt; heel; erg;
        wel; hoor; nou; tja; ach; ah; hè; eh; helaas; jammer; geen idee; idee; weet; weet niet; weet ik niet;
        ik ook; ook; graag; graag gedaan; gedaan; alsjeblieft; alstublieft; aub; geen probleem; geen dank;
        komt goed; komt; doe ik; doen we; is goed; haha; hihi; jongens; allemaal; iedereen; mensen; lieverd;
        vandaag; morgen; straks; later; nu; avond; vanavond; weekend; dag; nacht; tot; tot straks; tot later;
        tot zo; tot ziens; tot dan; zien; zie je; spreken; slaap lekker; slaap; fijne; succes; veel succes;
        plezier; veel plezier; sterkte; beterschap; hoe gaat het; gaat; alles; snap; afgesproken; klinkt;
        klinkt goed; afbeelding weggelaten; video weggelaten; audio weggelaten; sticker weggelaten;
        gif weggelaten; document weggelaten; media weggelaten; liefs; groet; groeten""",
    ),
    "sv": (
        """hej; hejsan; tjena; tja; hallå; hejdå; hej då; god morgon; godmorgon; god kväll; god natt; godnatt;
        tack; tack så mycket; tusen tack; välkommen; grattis; förlåt; ursäkta; vi ses; kram""",
        """ja; jo; japp; jadå; nej; nä; ok; okej; bra; jättebra; fint; härligt; toppen; perfekt; kul; roligt;
        jättekul; snyggt; skönt; precis; exakt; visst; självklart; absolut; såklart; säkert; kanske; verkligen;
        mycket; också; jag också; vet; vet inte; ingen aning; aning; tyvärr; synd; usch; oj; ah; nja; jaha; aha;
        haha; hihi; snälla; varsågod; inga problem; problem; ingen fara; gärna; stämmer; det stämmer; låter;
        låter bra; gör; idag; imorgon; i morgon; ikväll; senare; sen; snart; nu; helg; trevlig; trevlig helg;
        kväll; natt; dag; ses; hörs; vi hörs; sov gott; lycka till; krya på dig; hur mår du; mår; läget; alla;
        allihop; vänner; kramar; puss; bild utesluten; video utesluten; ljud utelslutet; ljud uteslutet;
        sticker utesluten; media utelämnat; fattar; förstår; är med""",
    ),
    "da": (
        """hej; hejsa; dav; goddag; hej hej; farvel; godmorgen; god morgen; godaften; god aften; godnat;
        god nat; tak; mange tak; tusind tak; velkommen; tillykke; undskyld; beklager; vi ses; knus""",
        """ja; jo; jep; jada; nej; ok; okay; fint; godt; god; super; dejligt; fedt; lækkert; perfekt; sjovt;
        rart; præcis; nemlig; selvfølgelig; klart; helt; helt sikkert; sikkert; måske; virkelig; meget; også;
        også mig; ved; ved ikke; aner det ikke; desværre; øv; uha; nå; jaså; aha; haha; hihi; venligst;
        selv tak; det var så lidt; så lidt; ingen problem; intet problem; gerne; passer; det passer; lyder;
        lyder godt; gør; i dag; idag; i morgen; imorgen; i aften; senere; snart; nu; weekend; aften; nat; dag;
        ses; snakkes; vi snakkes; tales; sov godt; held og lykke; held; god bedring; bedring; hvordan går det;
        går; alle; alle sammen; venner; kram; kys; billede udeladt; video udeladt; lyd udeladt;
        klistermærke udeladt; gif udeladt; dokument udeladt; medier udeladt; forstået; enig""",
    ),
    "nb": (
        """hei; heisann; hallo; hei hei; hadet; ha det; ha det bra; god morgen; godmorgen; god kveld; god natt;
        natta; takk; tusen takk; takk skal du ha; mange takk; velkommen; gratulerer; unnskyld; beklager; vi ses;
        vi sees; klem""",
        """ja; jo; jepp; japp; nei; ok; okei; greit; fint; bra; god; godt; flott; supert; deilig; kult; gøy;
        perfekt; herlig; nydelig; nettopp; akkurat; selvfølgelig; klart; helt; sikkert; absolutt; kanskje;
        virkelig; veldig; også; jeg også; vet; vet ikke; aner ikke; dessverre; synd; uff; oi; nja; jaha; aha;
        haha; hihi; vær så snill; vær så god; bare hyggelig; hyggelig; ikke noe problem; problem; gjerne;
        stemmer; det stemmer; høres; høres bra ut; gjør; i dag; i morgen; i kveld; senere; snart; nå; helg;
        helgen; kveld; natt; dag; ses; sees; snakkes; vi snakkes; sov godt; lykke til; god bedring;
        hvordan går det; går; alle; alle sammen; folkens; venner; klemmer; bilde ikke inkludert; video utelatt;
        lyd utelatt; klistremerke utelatt; gif utelatt; media utelatt; skjønner; enig""",
    ),
    "pl": (
        """cześć; hej; siema; witam; witaj; dzień dobry; dobry wieczór; dobranoc; dzięki; dziękuję; dziękuje;
        dziękuję bardzo; wielkie dzięki; dzięki wielkie; pa; papa; do widzenia; na razie; do jutra;
        do zobaczenia; gratulacje; gratuluję; wszystkiego najlepszego; przepraszam; sorki; sorry; buziaki""",
        """tak; no; nie; ok; okej; dobra; dobrze; dobry; jasne; pewnie; oczywiście; dokładnie; właśnie; racja;
        prawda; to prawda; zgoda; zgadzam się; super; świetnie; fajnie; ekstra; pięknie; idealnie; ładnie;
        spoko; luz; bardzo; też; ja też; może; chyba; nie wiem; wiem; niestety; szkoda; o; a; i; ach; oj; ojej;
        aha; haha; hihi; heh; proszę; nie ma za co; nie ma sprawy; nie ma problemu; ma; problemu; sprawy; to;
        się; że; w; na; z; do; ja; ty; my; wy; on; ona; mi; mnie; ci; cię; was; wam; jest; są; było; będzie; co;
        jak; już; jeszcze; tylko; tu; tam; dziś; dzisiaj; jutro; później; potem; zaraz; wieczorem; weekend;
        miłego; dnia; wieczoru; weekendu; miłego dnia; widzimy; śpij dobrze; powodzenia; zdrówka; co słychać;
        jak się masz; wszyscy; wszystkim; kochani; pozdrawiam; brzmi; brzmi dobrze; obraz pominięty;
        wideo pominięte; audio pominięte; pominięto multimedia; rozumiem""",
    ),
    "ru": (
        """привет; приветик; здравствуйте; здравствуй; доброе утро; добрый день; добрый вечер; спокойной ночи;
        спасибо; большое спасибо; спасибо большое; спс; пока; до свидания; до завтра; до встречи;
        добро пожаловать; поздравляю; с днем рождения; с днём рождения; извините; извини; прости; простите;
        целую""",
        """да; ага; угу; нет; неа; не; ок; окей; ладно; хорошо; хороший; хорошего; хорошей; отлично; прекрасно;
        супер; класс; круто; здорово; замечательно; идеально; молодец; точно; верно; именно; конечно; правда;
        согласен; согласна; договорились; наверное; возможно; может; может быть; не знаю; знаю; без понятия;
        жаль; увы; ой; ох; ах; ну; вот; ха; хаха; хахаха; хи; лол; ржу; пожалуйста; плиз; не за что; не вопрос;
        без проблем; проблем; тоже; я тоже; очень; всем; ребята; друзья; люди; все; всё; сегодня; завтра;
        вечером; утром; потом; позже; скоро; сейчас; дня; вечера; ночи; выходных; увидимся; созвонимся;
        спишемся; спи; сладких снов; удачи; выздоравливай; как дела; дела; обнимаю; понял; поняла; понятно;
        ясно; звучит; звучит хорошо; изображение отсутствует; видео отсутствует; аудиофайл отсутствует;
        без медиафайлов; рад; рада; до; скорого; до скорого""",
    ),
    "tr": (
        """merhaba; selam; selamlar; günaydın; iyi günler; iyi akşamlar; iyi geceler; teşekkürler;
        teşekkür ederim; çok teşekkürler; tesekkurler; sağ ol; sağol; eyvallah; hoşça kal; görüşürüz; güle güle;
        hoş geldin; hoş geldiniz; tebrikler; kusura bakma; pardon; özür dilerim; doğum günün kutlu olsun""",
        """evet; hayır; yok; ok; tamam; tamamdır; peki; olur; olmaz; tabii; tabi; tabii ki; elbette; kesinlikle;
        aynen; doğru; haklısın; süper; harika; güzel; çok; çok güzel; çok iyi; iyi; mükemmel; muhteşem; bravo;
        aferin; belki; galiba; bilmiyorum; maalesef; yazık; vay; ya; yaa; ah; eh; hadi; haydi; haha; ahaha;
        lütfen; rica ederim; bir şey değil; önemli değil; sorun değil; sorun yok; ben de; herkes; herkese;
        arkadaşlar; millet; canım; abi; bugün; yarın; akşam; akşama; sonra; şimdi; birazdan; hafta sonu;
        hafta sonları; günler; geceler; görüşmek üzere; konuşuruz; iyi uykular; kolay gelsin; bol şans;
        geçmiş olsun; nasılsın; nasılsınız; naber; ne haber; kendine iyi bak; öptüm; selametle; anladım;
        kulağa hoş geliyor; görüntü dahil edilmedi; video dahil edilmedi; ses dahil edilmedi;
        medya dahil edilmedi; o zaman; zaman""",
    ),
    "fi": (
        """hei; moi; moikka; terve; heippa; moi moi; hei hei; huomenta; hyvää huomenta; hyvää päivää;
        hyvää iltaa; hyvää yötä; öitä; kiitos; kiitti; kiitoksia; kiitos paljon; tervetuloa; onnea;
        onneksi olkoon; anteeksi; sori; nähdään; näkemiin""",
        """joo; juu; kyllä; ei; eipä; ok; okei; selvä; hyvä; hyvää; hyvin; hienoa; hieno; mahtavaa; loistavaa;
        kiva; kivaa; ihanaa; ihana; upeaa; täydellistä; tosi; aivan; juuri niin; totta; niin; samaa mieltä;
        ehkä; varmaan; en tiedä; tiedä; en; tiedän; harmi; valitettavasti; voi; no; oho; vau; aha; haha; hihi;
        ole hyvä; olkaa hyvä; ei kestä; ei mitään; ei haittaa; minäkin; mäkin; minä; mä; sä; sinä; me; te; se;
        on; ja; kaikki; kaikille; kaverit; tänään; huomenna; illalla; myöhemmin; sitten; kohta; nyt; pian;
        viikonloppua; päivää; iltaa; yötä; hyvää viikonloppua; kuullaan; palataan; nuku hyvin; tsemppiä;
        paranemisia; mitä kuuluu; kuuluu; kuulostaa hyvältä; kuulostaa; terveisin; ei kuvaa;
        media jätettiin pois; ymmärrän; sopii; hali""",
    ),
    "ar": (
        """مرحبا; مرحبًا; أهلا; اهلا; أهلا وسهلا; السلام عليكم; وعليكم السلام; صباح الخير; صباح النور;
        مساء الخير; مساء النور; تصبح على خير; تصبحون على خير; شكرا; شكرًا; شكرا لك; شكرا جزيلا; مشكور;
        مع السلامة; إلى اللقاء; مبروك; ألف مبروك; كل عام وأنتم بخير; آسف; اسف; عفوا; هلا""",
        """نعم; اي; ايوه; أيوه; لا; طيب; حسنا; حسنًا; تمام; ماشي; اوكي; أوكي; جيد; جيدا; ممتاز; رائع; جميل; جدا;
        جدًا; صحيح; بالضبط; أكيد; اكيد; طبعا; طبعًا; ربما; ممكن; لا أعرف; لا اعرف; والله; إن شاء الله;
        ان شاء الله; الحمد لله; ما شاء الله; الله; يا; يا جماعة; جماعة; شباب; الجميع; للجميع; أنا; انا; أيضا;
        أيضًا; من فضلك; لو سمحت; على الرحب والسعة; لا مشكلة; لا شكر على واجب; لك; لكم; هههه; ههه; هه; هههههه;
        اليوم; غدا; غدًا; بكرة; الليلة; لاحقا; لاحقًا; قريبا; الآن; أراك; أراكم; أراك غدا; نراكم; نتكلم; نتحدث;
        بالتوفيق; حظا سعيدا; سلامتك; كيف حالك; كيف الحال; كيفك; على خير; بخير; فهمت; موافق; يبدو; هذا; في; و;
        ما; لم يتم إدراج الصورة; تم استبعاد الوسائط; عطلة سعيدة; سعيدة""",
    ),
    "hi": (
        """नमस्ते; नमस्कार; प्रणाम; हाय; हैलो; हेलो; राम राम; सुप्रभात; शुभ प्रभात; गुड मॉर्निंग; शुभ रात्रि; शुभ संध्या; गुड नाइट;
        धन्यवाद; बहुत धन्यवाद; बहुत बहुत धन्यवाद; शुक्रिया; बहुत शुक्रिया; थैंक्स; अलविदा; बाय; स्वागत; बधाई; बधाई हो;
        जन्मदिन मुबारक; माफ़ करना; माफ करना; सॉरी; क्षमा""",
        """हाँ; हां; जी; जी हाँ; हाँ जी; हां जी; नहीं; ना; ठीक; ठीक है; अच्छा; अच्छी; अच्छे; बढ़िया; बहुत; बहुत अच्छा;
        बहुत बढ़िया; शानदार; कमाल; वाह; सही; बिल्कुल; बिलकुल; सच; सच में; ज़रूर; जरूर; पक्का; शायद; पता नहीं; मुझे; मैं; भी;
        मैं भी; है; हैं; हो; हूँ; था; यह; ये; वह; वो; तो; फिर; ही; का; की; के; को; से; में; पर; और; क्या; अरे; ओह; हाहा;
        हा हा; हाहाहा; कृपया; प्लीज़; कोई बात नहीं; कोई; बात; आज; कल; शाम; रात; बाद में; बाद; अभी; जल्दी; मिलते हैं; मिलते;
        कल मिलते हैं; बात करते हैं; करते; सब; सबको; दोस्तों; भाई; दोस्त; यार; आप; आपको; आपका; तुम; कैसे हो; कैसे हैं; कैसे;
        शुभकामनाएँ; शुभकामनाएं; ध्यान रखना; समझ गया; समझ गई; मीडिया छोड़ा गया; मीडिया के बिना; फ़ोटो हटाई गई""",
    ),
    "el": (
        """γεια; γεια σου; γεια σας; καλημέρα; καλησπέρα; καληνύχτα; ευχαριστώ; ευχαριστώ πολύ; ευχαριστούμε;
        αντίο; χαίρετε; καλώς ήρθες; συγχαρητήρια; χρόνια πολλά; συγγνώμη; συγνώμη; φιλιά""",
        """ναι; όχι; οκ; οκέι; εντάξει; καλά; καλό; καλή; πολύ; πολύ καλά; ωραία; ωραίο; τέλεια; τέλειο;
        υπέροχα; υπέροχο; μπράβο; σωστά; ακριβώς; βέβαια; φυσικά; σίγουρα; αλήθεια; συμφωνώ; ίσως; μάλλον;
        δεν ξέρω; ξέρω; δεν; δυστυχώς; κρίμα; αχ; ωχ; α; χαχα; χαχαχα; παρακαλώ; τίποτα; κανένα πρόβλημα; και;
        εγώ; κι εγώ; και εγώ; μου; σου; μας; σας; το; τα; η; ο; είναι; να; θα; σε; με; όλοι; όλους; παιδιά;
        σήμερα; αύριο; απόψε; μετά; αργότερα; τώρα; σύντομα; βράδυ; μέρα; σαββατοκύριακο; τα λέμε; λέμε;
        τα λέμε αύριο; θα τα πούμε; πούμε; όνειρα γλυκά; καλή τύχη; τύχη; περαστικά; τι κάνεις; τι κάνετε;
        ακούγεται καλό; ακούγεται; κατάλαβα; εικόνα παραλείφθηκε; εξαίρεση πολυμέσων""",
    ),
    "vi": (
        """chào; xin chào; chào bạn; chào cả nhà; chào buổi sáng; chúc ngủ ngon; ngủ ngon; cảm ơn; cám ơn;
        cảm ơn nhiều; tạm biệt; bai; hẹn gặp lại; chúc mừng; chúc mừng sinh nhật; xin lỗi""",
        """vâng; dạ; ừ; ừm; uh; có; không; ok; được; được rồi; rồi; tốt; tốt lắm; rất; rất tốt; tuyệt;
        tuyệt vời; hay; hay quá; đẹp; quá; lắm; đúng; đúng rồi; đúng vậy; chính xác; chắc chắn; tất nhiên;
        có lẽ; không biết; tiếc quá; trời ơi; ôi; à; ạ; nhé; nha; nhỉ; thế; vậy; haha; hihi; làm ơn;
        không có gì; không sao; tôi cũng vậy; cũng; tôi; mình; em; anh; chị; bạn; mọi người; cả nhà; nhiều;
        hôm nay; ngày mai; mai; tối; tối nay; sau; lát nữa; bây giờ; gặp; gặp lại; mai gặp; mai gặp nhé; hẹn;
        nói chuyện sau; cuối tuần vui vẻ; vui vẻ; vui; may mắn; chúc may mắn; khỏe không; bạn khỏe không; nghe;
        nghe hay đấy; đấy; hiểu rồi; đồng ý; đã bỏ qua hình ảnh; bỏ qua media; đã bỏ video""",
    ),
    "id": (
        """halo; hai; selamat pagi; pagi; selamat siang; selamat sore; selamat malam; terima kasih; makasih;
        trims; thanks; terima kasih banyak; makasih banyak; sampai jumpa; sampai besok; dadah; selamat datang;
        selamat; selamat ulang tahun; maaf; permisi; assalamualaikum; waalaikumsalam""",
        """ya; iya; yoi; tidak; nggak; gak; ga; enggak; bukan; ok; oke; okee; sip; siap; baik; baiklah; bagus;
        bagus sekali; sekali; banget; mantap; keren; hebat; asyik; asik; luar biasa; sempurna; benar; bener;
        betul; setuju; tentu; pasti; mungkin; entah; tidak tahu; gak tahu; tahu; sayang sekali; wah; aduh; ah;
        oh; eh; deh; dong; sih; kok; nih; lah; wkwk; wkwkwk; haha; hihi; tolong; sama sama; tidak apa apa;
        gapapa; tidak masalah; saya; aku; kamu; kita; juga; aku juga; saya juga; itu; ini; yang; di; semua;
        semuanya; teman teman; kawan; kak; bang; hari ini; besok; nanti; malam; sore; sekarang; segera;
        akhir pekan; sampai nanti; sampai ketemu; ketemu; ketemu besok; ngobrol; tidur nyenyak; semoga berhasil;
        semoga sukses; semoga; cepat sembuh; apa kabar; kabar; kedengarannya bagus; paham;
        gambar tidak disertakan; video tidak disertakan; media tidak disertakan""",
    ),
    "ja": (
        """こんにちは; こんばんは; おはよう; おはようございます; おやすみ; おやすみなさい; ありがとう;
        ありがとうございます; ありがとうございました; どうも; さようなら; じゃあね; またね; ようこそ;
        おめでとう; おめでとうございます; すみません; ごめん; ごめんなさい; よろしく; よろしくお願いします;
        誕生日おめでとう""",
        """はい; うん; うんうん; ええ; いいえ; いや; ううん; 了解; 了解です; りょ; 承知しました; わかった;
        わかりました; 分かりました; オッケー; オーケー; そう; そうだ; そうだね; そうですね; そうそう; そっか;
        そうなんだ; なるほど; たしかに; 確かに; もちろん; ほんと; ほんとに; 本当; 本当に; マジ; まじ; まじで;
        いいね; いいよ; いい; いいですね; 良い; よかった; 良かった; すごい; すごいね; 最高; 完璧; 素敵;
        素晴らしい; 楽しみ; 楽しみにしてます; 嬉しい; うれしい; 多分; たぶん; かも; わからない; わかんない;
        知らない; 残念; えっ; え; えー; へえ; へー; あー; あ; ああ; おお; お; うわ; わー; わあ; やった; 笑; 草;
        ｗ; w; はは; ははは; お願い; お願いします; どういたしまして; 大丈夫; 大丈夫です; 問題ない; 私も; 俺も;
        僕も; みんな; 皆さん; みなさん; 今日; 明日; また; また明日; また後で; あとで; 後で; 今; 今夜; 今度;
        では; じゃ; じゃあ; それじゃ; それで; お疲れ; お疲れ様; お疲れさま; お疲れ様です; お疲れさまです;
        おつかれ; 頑張って; がんばって; 頑張ろう; お大事に; 元気; 元気ですか; 行ってきます; いってらっしゃい;
        ただいま; おかえり; だね; です; ですね; だよ; だよね; だ; ね; よ; よね; な; なあ; か; かな; は; が; に;
        も; の; ー; ん; っ; さん; 会いましょう; 会おう; 話そう; 週末; よい週末を; 良い週末を; で;
        画像は含まれていません; メディアなし; スタンプは含まれていません; ビデオは含まれていません""",
    ),
    "zh": (
        """你好; 您好; 大家好; 嗨; 哈喽; 早; 早上好; 早安; 晚上好; 下午好; 晚安; 谢谢; 謝謝; 谢谢你; 谢谢大家;
        多谢; 多謝; 感谢; 感謝; 再见; 再見; 拜拜; 拜; 欢迎; 歡迎; 恭喜; 生日快乐; 生日快樂; 对不起; 對不起;
        抱歉; 不好意思""",
        """是; 是的; 是啊; 对; 對; 对的; 对啊; 嗯; 嗯嗯; 恩; 不; 不是; 没有; 沒有; 好; 好的; 好啊; 好吧; 好呀;
        好哒; 行; 行吧; 可以; 没问题; 沒問題; 没事; 沒事; 收到; 明白; 明白了; 知道了; 懂了; 了解; 当然; 當然;
        确实; 確實; 真的; 真的吗; 真; 同意; 没错; 沒錯; 不错; 不錯; 很好; 太好了; 好棒; 棒; 太棒了; 厉害; 厲害;
        赞; 讚; 完美; 哇; 哦; 喔; 噢; 啊; 呀; 吧; 吗; 嗎; 呢; 哈; 哈哈; 哈哈哈; 呵呵; 嘿嘿; 嘻嘻; 可能; 也许;
        不知道; 可惜; 唉; 哎; 哎呀; 请; 不客气; 不客氣; 我也是; 我也; 我; 你; 您; 他; 她; 我们; 我們; 你们;
        大家; 都; 也; 就; 那; 那就; 这; 這; 很; 太; 的; 了; 在; 今天; 明天; 后天; 晚上; 明晚; 待会; 待会儿;
        一会儿; 以后; 现在; 周末; 周末愉快; 回头见; 明天见; 明天見; 到时候见; 见; 見; 聊; 再聊; 明天聊; 回头聊;
        好梦; 加油; 祝你好运; 保重; 辛苦了; 辛苦; 吃了吗; 最近怎么样; 听起来不错; 高兴; 开心; 照片已忽略;
        视频已忽略; 音频已忽略; 圖片已略去; 影片已略去; 省略多媒体文件""",
    ),
    "ko": (
        """안녕; 안녕하세요; 안녕히; 안녕히 가세요; 안녕히 주무세요; 좋은 아침; 좋은 아침이에요; 잘 자; 잘자;
        잘자요; 감사; 감사합니다; 감사해요; 고마워; 고마워요; 고맙습니다; 정말 고마워; 잘 가; 환영; 환영합니다;
        축하; 축하해; 축하해요; 축하합니다; 생일 축하해; 미안; 미안해; 미안해요; 죄송합니다; 죄송해요""",
        """네; 넵; 넹; 예; 응; 어; 웅; 아니; 아니요; 아뇨; 오케이; 오키; 그래; 그래요; 알겠어; 알겠어요;
        알겠습니다; 알았어; 좋아; 좋아요; 좋네요; 좋다; 맞아; 맞아요; 맞습니다; 그렇죠; 그렇네; 그러게;
        그러게요; 그럼; 그럼요; 물론; 물론이죠; 당연하지; 진짜; 정말; 정말요; 대박; 최고; 최고예요; 완벽해;
        멋져; 멋져요; 멋지다; 잘했어; 와; 우와; 오; 아; 아하; 헐; 음; 글쎄; 글쎄요; 아마; 모르겠어; 모르겠어요;
        몰라; 아쉽다; 아쉽네요; 하하; 하하하; 히히; ㅋ; ㅎ; ㅠ; ㅜ; ㄱㅅ; ㅇㅇ; ㅇㅋ; ㄴㄴ; 부탁해; 부탁해요;
        부탁드려요; 천만에요; 괜찮아; 괜찮아요; 별말씀을요; 나도; 저도; 저도요; 여러분; 모두; 다들; 다; 잘;
        오늘; 내일; 이따; 이따가; 나중에; 지금; 곧; 저녁; 주말; 내일 봐; 내일 봐요; 내일 만나요; 봐; 봐요;
        또 봐; 이따 봐; 이따 봐요; 보자; 봬요; 얘기해요; 얘기하자; 주말 잘 보내세요; 잘 보내; 보내세요;
        좋은 하루 보내세요; 좋은; 하루; 밤; 꿈 꿔; 힘내; 힘내요; 화이팅; 파이팅; 행운을 빌어; 수고; 수고했어;
        수고하세요; 수고하셨습니다; 어떻게 지내; 잘 지내; 잘 지내세요; 사진 생략됨; 이미지 생략됨;
        동영상 생략됨; 오디오 생략됨; 이모티콘""",
    ),
})  # fmt: skip

_EVERY: Final = (1 << len(_EXPRESSIONS)) - 1
_LONGEST_CALL: Final = 8

_ACCENTED: Final = regex.compile(r"([\p{Latin}\p{Greek}])\p{Mn}+")
# Signs that are no words: a placeholder in brackets, a mark in a transcript, an emoji by name, a mention.
_SIGNS: Final = re.compile(r"^\s*<[^<>\n]{2,60}>\s*$|\{\w+\}|:[a-z0-9_+-]+:|(?<!\S)@\w+")
_INVISIBLE: Final = regex.compile(r"[\p{Default_Ignorable_Code_Point}\u0640]+")
_UNSPACED: Final = (
    r"[[\p{scx=Han}\p{scx=Hiragana}\p{scx=Katakana}\p{Thai}\p{Lao}\p{Khmer}\p{Myanmar}]&&[\p{L}\p{M}\p{N}]]"
)
_UNITS: Final = regex.compile(
    rf"{_UNSPACED}|[[\p{{L}}\p{{M}}]--{_UNSPACED}]+|\p{{N}}+(?:[.,:]\p{{N}}+)*", regex.VERSION1
)
_ASCII_UNITS: Final = re.compile(r"[a-z]+|[0-9]+(?:[.,:][0-9]+)*")
_STRETCHED: Final = re.compile(r"(.)\1{2,}")
_LAUGHTER: Final = re.compile(
    r"b?w?a?(?:h+[aeiou]){2,}h*|(?:[aeiou]h){2,}[aeiou]?|(?:j[aei]){2,}j?|k{2,}|w{2,}|(?:wk){2,}w?|(?:rs){2,}|lo+l+|"
    r"(?:х[аи]){2,}х?|(?:χα){2,}|ه{2,}|[ㅋㅎㅠㅜ]+|h+m+|m+h*m*|a+h+|o+h+|x+d+|[あえおわ]"
)
_LONGEST_LAUGHTER: Final = 60
_CLOCK: Final = re.compile(r"\d{1,2}(?::\d\d)?")

_Units = tuple[str, ...]


def find_small_talk(texts: Sequence[str | None], names: Iterable[str] = ()) -> list[bool]:
    """Find the texts that have no content.

    A text has content if a word is neither in the list of its language nor a name of an author. A text mixes one
    language with what all languages share, such as "ok" and "lol". A greeting or thanks may address someone: "Thanks,
    Ana". Emoji and punctuation say nothing, and neither does a clock time or a number of two digits in a text that has
    words.

    Args:
        texts: Messages, each by itself; None for a message without text, such as a picture.
        names: Names of the authors, under which the texts may address them.

    Returns:
        For each text, whether it is small talk.
    """
    known = dict(_list_words())
    known.update((word, _EVERY) for name in names for word in _split(name) if not word.isnumeric())
    split = [[] if text is None else _split(_SIGNS.sub(" ", text)) for text in texts]
    found = [_is_covered(units, known) for units in split]
    return [
        small or _addresses_someone(text or "", units, known)
        for small, text, units in zip(found, texts, split, strict=True)
    ]


def _split(text: str) -> list[str]:
    """Split a text into words and numbers; each character of a script without spaces stands alone."""
    if text.isascii():
        return _ASCII_UNITS.findall(text.lower())
    folded = _INVISIBLE.sub("", unicodedata.normalize("NFKC", text).casefold())
    bare = _ACCENTED.sub(r"\1", unicodedata.normalize("NFD", folded))
    return _UNITS.findall(unicodedata.normalize("NFC", bare))


def _list_phrases(expressions: str) -> Iterator[_Units]:
    return filter(None, (tuple(_split(each)) for each in expressions.split(";")))


@cache
def _list_words() -> dict[str, int]:
    """List the words of all languages, each with its languages as bits."""
    return {units[0]: bits for units, bits in _list_expressions().items() if len(units) == 1}


@cache
def _list_expressions() -> dict[_Units, int]:
    """List the words and phrases of all languages, each with its languages as bits."""
    found: defaultdict[_Units, int] = defaultdict(int)
    for place, (language, expressions) in enumerate(_EXPRESSIONS.items()):
        stop_words = list_stop_words(find_stemmer(language))
        for units in chain(*map(_list_phrases, expressions), *map(_list_phrases, sorted(stop_words))):
            found[units] |= 1 << place
    found.update((units, _EVERY) for units in _list_phrases(_EVERYWHERE))
    return dict(found)


@cache
def _list_continuations() -> dict[str, tuple[tuple[_Units, int], ...]]:
    """List the phrases of several words by their first word."""
    found = defaultdict(list)
    for units, bits in _list_expressions().items():
        if len(units) > 1:
            found[units[0]].append((units, bits))
    return {first: tuple(phrases) for first, phrases in found.items()}


@cache
def _list_calls() -> frozenset[_Units]:
    """List the words and phrases that a name may follow."""
    return frozenset(chain.from_iterable(_list_phrases(calls) for calls, _ in _EXPRESSIONS.values()))


def _find_languages(unit: str, known: dict[str, int]) -> int:
    """Find the languages in which a word has no content, as bits; also as it is written without stretched letters."""
    bits = known.get(unit)
    if bits is None:
        bits = _EVERY if _CLOCK.fullmatch(unit) else 0
        if not bits and len(unit) <= _LONGEST_LAUGHTER:
            forms = (_STRETCHED.sub(r"\1\1", unit), _STRETCHED.sub(r"\1", unit))
            if any(_LAUGHTER.fullmatch(form) for form in (unit, *forms)):
                bits = _EVERY
            elif forms[0] != unit:
                bits = known.get(forms[0], 0) | known.get(forms[1], 0)
    return bits


def _is_covered(units: Sequence[str], known: dict[str, int]) -> bool:
    """Tell whether the expressions of one language make up all words."""
    if len(units) == 1 and units[0].isnumeric():
        return False
    continuations = _list_continuations()
    # The languages whose expressions make up all words before each place.
    covered = [_EVERY] + [0] * len(units)
    last = 0
    for place, unit in enumerate(units):
        here = covered[place]
        if not here:
            if last <= place:
                return False
            continue
        if reached := here & _find_languages(unit, known):
            covered[place + 1] |= reached
            last = max(last, place + 1)
        for phrase, bits in continuations.get(unit, ()):
            end = place + len(phrase)
            if here & bits and tuple(units[place:end]) == phrase:
                covered[end] |= here & bits
                last = max(last, end)
    return covered[-1] != 0


def _addresses_someone(text: str, units: Sequence[str], known: dict[str, int]) -> bool:
    """Tell whether a text without a question is small talk beside one capitalised word, as in "Thanks, Ana"."""
    if not 1 < len(units) <= _LONGEST_CALL or any(mark in text for mark in "?？؟"):
        return False
    calls = _list_calls()
    for place, unit in enumerate(units):
        if unit in known or not _is_capitalised(unit, text):
            continue
        before, after = units[:place], units[place + 1 :]
        greets = any(tuple(before[-count:]) in calls for count in range(1, min(4, len(before)) + 1))
        thanks = any(tuple(after[:count]) in calls for count in range(1, min(4, len(after)) + 1))
        if greets or thanks:
            return _is_covered([*before, *after], known)
    return False


def _is_capitalised(unit: str, text: str) -> bool:
    return any(word[0].isupper() and unit in _split(word) for word in text.split())
