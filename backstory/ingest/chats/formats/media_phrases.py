"""Phrases that WhatsApp exports in place of a picture, a voice message or a file, in many languages.

Each language (BCP 47) has a list of phrases separated by commas. Case, direction marks, angle brackets and a final
full stop are ignored in the comparison. Any phrase that is not listed counts as text.
"""

from __future__ import annotations

from typing import Final

IN_BRACKETS: Final = {
    "af": "Media weggelaat",
    "ar": "تم استبعاد الوسائط, الوسائط غير مدرجة",
    "az": "media buraxıldı, Media çıxarılmışdır",
    "bg": "Без файл",
    "bn": "মিডিয়া বাদ দেওয়া হয়েছে",
    "ca": "fitxers multimèdia omesos, Mitjans omesos",
    "cs": "média vynechány, Média vynechána",
    "da": "medier udeladt, Mediefil udeladt",
    "de": "Medien ausgeschlossen, Medien weggelassen, Medien ausgelassen",
    "el": "αρχείο παραλήφθηκε, Εξαίρεση πολυμέσων",
    "en": (
        "Media omitted, Video message omitted, Video note omitted, View once voice message omitted, Voice"
        " message omitted"
    ),
    "es": "Multimedia omitido, Archivo omitido, Archivos omitidos",
    "et": "meedia välja jäetud, Meedia ära jäetud",
    "fa": "رسانه حذف شد, پيوست نما/آهنگ حذف شد",
    "fi": "media jätettiin pois, Media jätetty pois",
    "fil": "Walang kalakip na media, Inalis ang media",
    "fr": "Médias omis, Média omis, Fichier omis, Fichier média omis",
    "gu": "મિડિયા છોડી મૂકાયું, મીડિયા અવગણવામાં આવ્યા, મીડિયા અવગણાયું",
    "he": "המדיה לא נכללה, מדיה הושמטה, המדיה הוסרה, התמונה הושמטה, קטע קול הושמט, הסרט הושמט, GIF הושמט",
    "hi": "मीडिया के बिना, मीडिया छोड़ा गया",
    "hr": "Medijski zapis izostavljen",
    "hu": "Média elhagyva, Hiányzó médiafájl, Média kihagyva",
    "id": "Media tidak disertakan",
    "it": "Media omessi, Media omesso, Media esclusa, Media esclusi",
    "ja": "メディアなし, メディアは含まれていません",
    "kk": "файлдар қосылмаған, Файл қосылған жоқ",
    "kn": "ಮಾಧ್ಯಮ ಕೈಬಿಡಲಾಗಿದೆ",
    "ko": "미디어 파일 제외됨, 미디어 파일을 생략한 대화내용, 미디어 파일을 제외한 메시지",
    "lo": "ບໍ່ລວມມີເດຍ",
    "lt": "medija praleista, Praleistas medijos turinys",
    "lv": "nav iekļauta multivide, Bez multivides",
    "mk": "без фајлови, Без фајл",
    "ml": "മീഡിയ ഒഴിവാക്കി",
    "mr": "मीडिया वगळण्यात आला, मीडिया वगळले",
    "ms": "Media dikecualikan, Media disingkirkan",
    "nb": "Media utelatt, Uten vedlegg",
    "nl": "Media weggelaten",
    "pa": "ਮੀਡੀਆ ਛੱਡਿਆ, ਮੀਡੀਆ ਛਡਿਆ ਗਿਆ, ਮੀਡੀਆ ਛੱਡਿਆ ਗਿਆ",
    "pl": "Pominięto multimedia, pliki pominięto",
    "pt": "Mídia oculta, Mídia omitida, Arquivo de mídia oculto, Ficheiro não revelado",
    "ro": "Conținut media omis, Fișier media omis",
    "ru": "Без медиафайлов, Файл пропущен, Медиафайл пропущен, Медиа отсутствует",
    "sk": "Médiá vynechané",
    "sl": "datoteke izpuščene, Medij izpuščen",
    "sq": "Media u hoq, Media hequr, Pa media",
    "sr": "Медији су изостављени",
    "sv": "Media utelämnat, Media har utelämnats",
    "sw": "Media hazijajumuishwa, Media imerukwa",
    "ta": "கோப்புகள் விடப்பட்டன, ஊடகங்கள் நீக்கப்பட்டது",
    "te": "మీడియా విస్మరించబడింది, మాధ్యమం విస్మరించబడింది",
    "th": "ไฟล์สื่อถูกลบ, สื่อถูกลบ",
    "tr": "Medya dahil edilmedi, Medya atlanmış",
    "uk": "Медіа пропущено",
    "ur": "میڈیا چھوڑ دیا گیا, میڈیا ہٹا دیا گیا",
    "uz": "fayl o‘tkazib yuborildi",
    "vi": "Bỏ qua tệp phương tiện, Bỏ qua Media",
    "zh": "省略多媒体文件, 忽略多媒體檔, 媒體已略去, 已略去媒體檔案",
}
"""Phrase that Android writes between angle brackets for every kind of media."""

BY_KIND: Final = {
    "ar": (
        "لم يتم إدراج الصورة, لم يتم إدراج الفيديوهات, لم يتم إدراج المقاطع الصوتية, تم حذف الملصقات, لم "
        "يتم إدراج صورة GIF, لم يتم إدراج المستند, لم يتم إدراج بطاقة جهة اتصال"
    ),
    "bn": (
        "ইমেজ বাদ দেওয়া হয়েছে, ভিডিও বাদ দেওয়া হয়েছে, "
        "অডিও বাদ দেওয়া হয়েছে, স্টিকার বাদ দেওয়া হয়েছে, "
        "জিআইএফ বাদ দেওয়া হয়েছে, ডকুমেন্ট বাদ দেওয়া "
        "হয়েছে, পরিচিতির কার্ড বাদ দেওয়া হয়েছে"
    ),
    "ca": (
        "Imatge omesa, vídeo omès, Àudio omès, adhesiu omès, GIF omès, Document omès, Targeta de contacte"
        " omesa"
    ),
    "cs": (
        "obrázek vynechán, video vynecháno, zvukový soubor vynechán, nálepka vynechána, GIF vynechán, "
        "dokument vynechán, Vizitka vynechána"
    ),
    "da": (
        "billede udeladt, video udeladt, lyd udeladt, klistermærke udeladt, GIF udeladt, dokument "
        "udeladt, Kontaktkort udeladt"
    ),
    "de": (
        "Bild weggelassen, Video weggelassen, Audio weggelassen, Sticker weggelassen, GIF weggelassen, "
        "Dokument weggelassen, Kontaktkarte ausgelassen, Videonachricht weggelassen, Sprachnachricht "
        "weggelassen, Kontaktkarte weggelassen, GIF ausgelassen, Foto weggelassen"
    ),
    "el": (
        "εικόνα παραλείφθηκε, βίντεο παραλείφθηκε, ήχος παραλείφθηκε, αυτοκόλλητο παραλήφθηκε, Παράληψη "
        "GIF, έγγραφο παραλείφθηκε, Η κάρτα επαφής παραλήφθηκε"
    ),
    "en": (
        "image omitted, video omitted, audio omitted, sticker omitted, GIF omitted, document omitted, "
        "Contact card omitted, photo omitted, voice message omitted, video note omitted, video message "
        "omitted"
    ),
    "es": (
        "imagen omitida, Video omitido, audio omitido, sticker omitido, GIF omitido, documento omitido, "
        "Tarjeta de contacto omitida, video omitido, nota de video omitida"
    ),
    "fa": "تصویر حذف شد, ویدیو حذف شد, صدا حذف شد, استیکر حذف شد, GIF حذف شد, سند حذف شد, برگ مخاطب حذف شد",
    "fi": (
        "ei kuvaa, videota ei sisällytetä, äänitiedostoa ei sisällytetä, tarraa ei sisällytetty, "
        "GIF-animaatio jätetty pois, dokumenttia ei sisällytetä, Yhteystietokortti jätettiin pois"
    ),
    "fr": (
        "image absente, vidéo absente, audio omis, sticker omis, GIF retiré, document manquant, Fiche "
        "contact manquante, sticker absent, audio absent, document absent"
    ),
    "ga": (
        "íomhá ligthe ar lár, físeán ligthe ar lár, comhad fuaime ar lár, fágadh an greamán ar lár, GIF "
        "ligthe ar lár, cáipéis ligthe ar lár, Cárta teagmhála ar lár"
    ),
    "gu": (
        "છબી પડતી મૂકાઈ, વિડિયો પડતી મુકાઈ, ઓડિયો ફાઇલ શામેલ "
        "કરી નથી, સ્ટીકર પડતું મુકાયું, GIF પડતી મૂકાઈ, "
        "ડોક્યુમેન્ટ સામેલ કર્યું નહિ, સંપર્કનું કાર્ડ પડતું "
        "મૂકાયું"
    ),
    "he": (
        "התמונה הושמטה, סרטון הווידאו הושמט, קטע קול הושמט, סטיקר הושמט, GIF הושמט, מסמך הושמט, כרטיס איש"
        " קשר הושמט"
    ),
    "hi": (
        "फ़ोटो हटाई गई, वीडियो छोड़ा गया, ऑडियो हटाई गयी, "
        "स्टिकर छोड़ा गया, GIF छोड़ा गया, डॉक्यूमेंट छोड़ा "
        "गया, कॉन्टैक्ट कार्ड छोड़ा गया"
    ),
    "hr": (
        "slika izostavljena, video izostavljen, zvuk izostavljen, naljepnica izostavljena, GIF "
        "izostavljen, dokument izostavljen, Posjetnica izostavljena"
    ),
    "hu": (
        "kép küldése sikertelen, Videó kihagyva, Hang kihagyása, matrica kihagyva, GIF fájl kihagyása, "
        "dokumentum kihagyva, Névjegykártya kihagyva"
    ),
    "id": (
        "gambar tidak disertakan, video tidak disertakan, audio tidak disertakan, stiker tidak "
        "disertakan, GIF tidak disertakan, dokumen tidak disertakan, Kartu kontak tidak disertakan"
    ),
    "it": (
        "immagine omessa, video omesso, audio omesso, sticker non incluso, GIF esclusa, documento omesso,"
        " Scheda contatto omessa"
    ),
    "ja": (
        "画像は含まれていません, ビデオは含まれていません, 音声は含まれていません, "
        "スタンプは含まれていません, GIFは含まれていません, ドキュメントは含まれていません, "
        "連絡先カードを省略"
    ),
    "ko": (
        "이미지 생략됨, 비디오 생략됨, 오디오 생략됨, 스티커 제외됨, GIF 생략됨, 문서 생략됨,"
        " 연락처 카드 생략됨"
    ),
    "mr": ("इमेज वगळली, व्हिडीओ वगळला, ऑडिओ वगळला, स्टिकर वगळले, GIF वगळले, डॉक्युमेंट वगळले, संपर्क कार्ड वगळले"),
    "ms": (
        "imej tidak dimasukkan, video tidak dimasukkan, audio tidak dimasukkan, pelekat tidak disertakan,"
        " GIF tidak dimasukkan, dokumen tidak dimasukkan, Kad kenalan tidak dimasukkan"
    ),
    "nb": (
        "bilde ikke inkludert, video utelatt, lyd utelatt, klistremerke utelatt, GIF utelatt, utelatt "
        "dokument, Kontaktkort sløyfet"
    ),
    "nl": (
        "afbeelding weggelaten, video weggelaten, audio weggelaten, sticker weggelaten, GIF weggelaten, "
        "document weggelaten, Visitekaartje weggelaten"
    ),
    "pl": (
        "obraz pominięty, wideo pominięte, audio pominięte, pominięto naklejkę, Plik GIF pominięty, "
        "dokument pominięty, Pominięta wizytówka kontaktu"
    ),
    "pt-BR": (
        "imagem ocultada, vídeo omitido, áudio ocultado, figurinha omitida, Cartão do contato omitido, "
        "GIF omitido, documento omitido, imagem omitida, áudio omitido"
    ),
    "pt-PT": (
        "imagem não revelada, vídeo não revelado, ficheiro de áudio não revelado, sticker não revelado, "
        "GIF não revelada, documento não revelado, Contacto não revelado, imagem omitida, vídeo omitido, "
        "áudio omitido"
    ),
    "ro": (
        "Imagine omisă, clip video omis, fără audio, GIF omis, document omis, Carte de vizită contact omisă"
    ),
    "ru": (
        "изображение отсутствует, видео отсутствует, аудиофайл отсутствует, стикер не добавлен, GIF "
        "отсутствует, документ отсутствует, Карточка контакта отсутствует"
    ),
    "sk": (
        "obrázok vynechaný, video vynechané, zvuk vynechaný, nálepka vynechaná, GIF vynechaný, dokument "
        "vynechaný, Karta kontaktu vynechaná"
    ),
    "sv": (
        "bild utesluten, video utesluten, ljud utelslutet, sticker utesluten, GIF utesluten, dokument "
        "uteslutet, Kontaktkort uteslutet, ljud uteslutet"
    ),
    "th": ("ไม่มีรูปภาพ, วิดีโอถูกลบ, ไม่มีไฟล์เสียง, ไม่มีสติกเกอร์, ละเว้น GIF, ละเว้นเอกสาร, บัตรรายชื่อที่ละเว้น"),
    "tr": (
        "görüntü dahil edilmedi, video dahil edilmedi, ses dahil edilmedi, Çıkartma dahil edilmedi, GIF "
        "dahil edilmedi, belge dahil edilmedi, Kişi kartı dahil edilmedi, çıkartma dahil edilmedi, kişi "
        "kartı dahil edilmedi"
    ),
    "uk": (
        "зображення відсутнє, відео відсутнє, аудіо відсутнє, Наклейку не додано, GIF-анімацію пропущено,"
        " документ пропущено, Картка контакту відсутня"
    ),
    "ur": (
        "تصویر نکال دی گئی ہے, ویڈیو نظرانداز, آڈیو نظرانداز, اسٹیکر نظرانداز, GIF نظرانداز, دستاویز "
        "نظرانداز, رابطہ کارڈ نظر انداز"
    ),
    "vi": (
        "đã bỏ qua hình ảnh, đã bỏ video, bỏ qua tệp âm thanh, đã bỏ sticker, Đã bỏ qua ảnh GIF, đã bỏ "
        "qua tài liệu, Bỏ qua thẻ liên lạc"
    ),
    "zh-CN": (
        "照片已忽略, 视频已忽略, 音频已忽略, 贴图已省略, GIF 动态图已被忽略, 文档已省略, 联系人卡片已忽略"
    ),
    "zh-HK": (
        "圖像已省略, 影片已省略, 音訊已省略, 貼圖已忽略, GIF 圖片已被省略, 文件已忽略, 聯絡人卡片已省略"
    ),
    "zh-TW": ("圖片已略去, 影片已略去, 音訊已略去, 貼圖已略去, GIF 已略去, 文件已略去, 聯絡人卡片已略去"),
}
"""Phrases that iOS writes after a left-to-right mark: picture, video, sound, sticker, GIF, document, contact card."""

AFTER_FILE_NAME: Final = {
    "ca": "fitxer adjunt",
    "cs": "soubor byl přiložen",
    "da": "fil vedhæftet",
    "de": "Datei angehängt",
    "en": "file attached",
    "es": "archivo adjunto",
    "fr": "fichier joint",
    "he": "הקובץ מצורף, קובץ מצורף",
    "id": "file terlampir",
    "it": "file allegato",
    "ja": "ファイル添付",
    "nb": "fil vedlagt",
    "nl": "bestand bijgevoegd",
    "pl": "załączony plik, plik załączony",
    "pt": "arquivo anexado, ficheiro anexado",
    "ru": "файл добавлен, файл прикреплен, файл прикреплён",
    "sv": "bifogad fil, fil bifogad",
    "tr": "dosya ekli",
    "uk": "файл додано",
    "zh": "附件, 文件附件",
}
"""Phrase that Android writes in round brackets after the name of a file that is part of the export."""

ALSO_WORDS: Final = (
    "ei kuvaa, fără audio, ไม่มีรูปภาพ, ไม่มีไฟล์เสียง, ไม่มีสติกเกอร์, без файл, без фајл, без фајлови, файл пропущен, "
    "без медиафайлов, pa media, bez multivides, uten vedlegg, fichier omis, archivo omitido, archivos omitidos, 附件"
)
"""Phrases that people also write. Without angle brackets they count only after the left-to-right mark of the app."""
